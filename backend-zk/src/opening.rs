use std::sync::Arc;

use latchwork_core::backend::decide::ContactProof;
use latchwork_core::backend::{Backoff, NamePool, Pauses, note_failure};
use latchwork_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::config::{Settings, ttl_refused};
use crate::driver::{Connected, Driver, Stat};
use crate::layout::member_path;
use crate::lease::SessionLease;
use crate::namespace::{connect_error, make_member, trusted};
use crate::queue::{FastPath, Session, Unsettled, WatchSessions};
use crate::renewal::renew;
use crate::watch::HolderWatch;

/// Also starts its renewal and its holder watch. Fails when its client has `ended`: the session is then
/// closed, because it would remain until it expires.
pub(crate) async fn open_session(
    settings: &Arc<Settings>,
    names: &Arc<NamePool>,
    runtime: &Handle,
    ended: &CancellationToken,
) -> Result<Arc<Session>> {
    let mut pauses = Backoff::new(Pauses::OUTAGE);
    while !ended.is_cancelled() {
        let Connected { driver, sent, answered } =
            Driver::connect(settings, runtime, None).await.map_err(|fault| connect_error(fault, settings))?;
        let granted = driver.lease().ttl();
        if granted < settings.ttl {
            return Err(ttl_refused(settings.ttl, granted));
        }
        let period = settings.contact_period(granted)?;
        if driver.lease().deadline().since(answered) < period * 17 / 8 {
            // Other hosts took so much time that the lease would end before its first proof. The next attempt
            // begins at another host.
            continue;
        }
        let member = member_path(&settings.namespace);
        let Some(prepared) = ended.run_until_cancelled(prepare(&driver, settings, &member)).await else {
            close(&driver, settings).await;
            break;
        };
        let (made, believes_announcements, has_idle_cells) = match prepared {
            // A short session can end while a busy server creates the directories. They remain.
            Err(error) if driver.lease().lost().is_some() || is_unanswered(&error) => {
                note_failure(&error);
                driver.close();
                if ended.run_until_cancelled(pauses.wait(&settings.clock)).await.is_none() {
                    close(&driver, settings).await;
                }
                continue;
            }
            prepared => prepared?,
        };
        let watch_sessions = WatchSessions::beside(&driver, settings, runtime);
        let lease = Arc::new(SessionLease::new(driver, settings, member, &made, has_idle_cells));
        let session = Arc::new(Session {
            driver: Arc::clone(&lease.driver),
            lease: Arc::clone(&lease),
            settings: Arc::clone(settings),
            runtime: runtime.clone(),
            names: Arc::clone(names),
            unsettled: Unsettled::default(),
            holders: Arc::new(HolderWatch::default()),
            fast_path: FastPath::new(settings, believes_announcements, watch_sessions),
        });
        runtime.spawn(Arc::clone(&session.holders).run(Arc::clone(&lease.driver), runtime.clone()));
        let proof = ContactProof::new(sent, answered, granted, period);
        runtime.spawn(keep(Arc::clone(&session), proof));
        return Ok(session);
    }
    Err(Error::closed())
}

async fn close(driver: &Driver, settings: &Settings) {
    driver.close();
    let _ = tokio::time::timeout(settings.request_timeout, driver.closed()).await;
}

async fn prepare(driver: &Driver, settings: &Settings, member: &str) -> Result<(Stat, bool, bool)> {
    let entered = driver.enter(settings.chroot.as_deref()).await;
    entered.map_err(|fault| connect_error(fault, settings))?;
    let nowhere = format!("{member}-nowhere/node");
    let asked = async {
        let answer = driver.has_nodes_that_live(&nowhere).await;
        answer.map_err(|fault| connect_error(fault, settings))
    };
    let (made, has_idle_cells) = tokio::join!(make_member(driver, settings, member), asked);
    Ok((made?, trusted(driver, settings).await?, has_idle_cells?))
}

fn is_unanswered(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown)
}

async fn keep(session: Arc<Session>, proof: ContactProof) {
    if let Some(reason) = renew(&session.lease, proof).await {
        session.close(reason);
    }
}
