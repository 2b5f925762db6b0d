//! A session as a lease: opened, proven by contacts, given back.
//!
//! # Why the deadline is safe
//!
//! The leader expires a session that it has not heard of for the granted timeout. A follower answers reads by
//! itself, and tells the leader of its clients only in its ping answers, every half tick: so a read proves
//! nothing, and an acknowledged write proves only that the leader heard of the contact *before* it, if that
//! lies further back than the ping interval. The contacts here are quorum writes on the client's own member
//! node, one period apart, and the deadline counts from the send of contact k-1 ([`ContactProof`], RULES C4).
//! One write per client and period, however many locks it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use latchwork_core::contracts::{LeaseKeeper, Names, NodeId};
use latchwork_core::decide::ContactProof;
use latchwork_core::{Error, ErrorKind, Kind, LostReason, Moment, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::config::{CLIENTS, LIMITS, RELEASED, Settings, ttl_refused};
use crate::driver::{Connected, Driver, Grant, Mode, Stat};
use crate::error::{Fault, Unheard};
use crate::guard::{Guards, watch_over};
use crate::history::History;
use crate::incarnation::forgotten;
use crate::lookouts::{Lookouts, Place};
use crate::trust::{Trust, is_open};

/// One session, shared by all nodes that hang on it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) driver: Driver,
    pub(crate) settings: Arc<Settings>,
    /// The client's: a session that is opened anew is not to end with the runtime of whoever asked for it.
    pub(crate) runtime: Handle,
    // The server's wall clock at a moment of ours: for the ages that listings show.
    server_time: Mutex<(i64, Moment)>,
    /// What it holds, to be watched.
    pub(crate) guards: Guards,
    /// The client's, over all its sessions: what an attempt of unknown outcome has left on a lost one is found by its name too.
    pub(crate) names: Arc<Names>,
    pub(crate) history: History,
    pub(crate) lookouts: Lookouts,
    /// See [`Trust`].
    pub(crate) trust: Trust,
    /// The last transaction of which this session knows.
    pub(crate) seen: AtomicI64,
    keeper: Mutex<Option<tokio::task::AbortHandle>>,
}

impl Session {
    /// Opens a session, and starts to prove it.
    pub(crate) async fn open(
        settings: &Arc<Settings>,
        names: &Arc<Names>,
        runtime: &Handle,
    ) -> Result<Arc<Self>> {
        loop {
            let Connected { driver, sent, answered } = Driver::connect(settings, runtime, None)
                .await
                .map_err(|fault| connect_error(fault, settings))?;
            let lease = driver.lease();
            let granted = lease.ttl();
            if granted < settings.ttl {
                return Err(ttl_refused(settings.ttl, granted));
            }
            let period = settings.contact_period(granted)?;
            if lease.deadline().since(answered) < period * 17 / 8 {
                // Other hosts were tried in vain first, which used the lease up: before its first
                // proof counted it would be lost. The next try begins elsewhere.
                continue;
            }
            let proof = ContactProof::new(sent, answered, granted, period);
            let member = format!("/{}/{CLIENTS}/{}", settings.namespace, NodeId::random().hyphenated());
            let made = match make_member(&driver, settings, &member).await {
                // A short session can end while a busy server makes the directories: another, then.
                Err(_) if lease.lost().is_some() => {
                    driver.give_back();
                    continue;
                }
                made => made?,
            };
            let trust = match look_at_acls(&driver, settings).await {
                Err(_) if lease.lost().is_some() => {
                    driver.give_back();
                    continue;
                }
                trust => trust?,
            };
            let server_time = Mutex::new((made.ctime, settings.clock.now()));
            let session = Arc::new(Self {
                driver,
                settings: Arc::clone(settings),
                runtime: runtime.clone(),
                server_time,
                guards: Guards::default(),
                names: Arc::clone(names),
                history: History::default(),
                lookouts: Lookouts::default(),
                trust,
                seen: AtomicI64::new(made.czxid),
                keeper: Mutex::default(),
            });
            runtime.spawn(watch_over(Arc::clone(&session)));
            let keeper = runtime.spawn(keep(Arc::clone(&session), proof, member));
            *session.keeper.lock() = Some(keeper.abort_handle());
            return Ok(session);
        }
    }

    pub(crate) fn lease(&self) -> &LeaseKeeper {
        self.driver.lease()
    }

    /// Ends the lease and gives the session back, so that nobody waits behind our old nodes (RULES C6).
    pub(crate) fn give_back(&self, reason: LostReason) {
        self.lease().end(reason);
        self.driver.give_back();
        self.lookouts.give_back();
    }

    /// Whether the server confirms in this time that the session which was given back is closed. Those that hold nothing are
    /// waited for as well, but say nothing of it.
    pub(crate) async fn closed_within(&self, time: Duration) -> bool {
        let mut closed = false;
        let all = async {
            self.driver.closed().await;
            closed = true;
            self.lookouts.closed().await;
        };
        // Cut short or not: what counts is told by then.
        let _ = tokio::time::timeout(time, all).await;
        closed
    }

    /// Where a wait is to watch these.
    pub(crate) async fn place<'a>(self: &'a Arc<Self>, paths: impl IntoIterator<Item = &str>) -> Place<'a> {
        let bytes = paths.into_iter().map(|path| self.driver.weight_of(path)).sum();
        if let Some(room) = self.driver.room_to_wait(bytes) {
            return Place::here(&self.driver, Some(room));
        }
        match self.lookouts.post(bytes, self).await {
            Some(lookout) => Place::there(&self.driver, lookout),
            None => Place::here(&self.driver, None),
        }
    }

    /// A request was answered by the end of the session: why it is lost. Where the client crate says so before our clock
    /// does, it is lost from now on. `None` for a client that was killed, whose lease runs out by itself.
    pub(crate) fn over(&self) -> Option<LostReason> {
        if !self.driver.is_killed() {
            self.lease().end(LostReason::Expired);
        }
        self.lease().lost()
    }

    /// The client dies: nothing more is sent.
    pub(crate) async fn kill(&self) {
        if let Some(keeper) = self.keeper.lock().take() {
            keeper.abort();
        }
        self.driver.kill().await;
        self.lookouts.kill().await;
    }

    /// The server's wall clock now, in milliseconds, as far as we know.
    pub(crate) fn server_now(&self) -> i64 {
        let (time, at) = *self.server_time.lock();
        let passed = self.lease().clock().now().since(at).as_millis();
        time.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

/// Proves the session until it is lost, then gives it back.
async fn keep(session: Arc<Session>, proof: ContactProof, member: String) {
    let reason = tokio::select! {
        () = contact(&session, proof, &member) => LostReason::Expired,
        () = session.driver.follow() => LostReason::Expired,
        reason = session.lease().until_lost() => reason,
        () = forgotten(&session) => LostReason::Forgotten,
    };
    session.give_back(reason);
}

/// What a client that counts from its last answered read would do, without a write in the way: a control for
/// tests, since it believes a follower that is cut off from its leader.
#[cfg(feature = "controls")]
async fn believe_reads(session: &Session, member: &str) {
    let (driver, lease) = (&session.driver, session.lease());
    loop {
        let sent = lease.clock().now();
        if driver.stat(member).await.is_ok() {
            lease.proven(sent);
        }
        lease.clock().sleep_until(sent + session.settings.tick).await;
    }
}

async fn contact(session: &Session, mut proof: ContactProof, member: &str) {
    #[cfg(feature = "controls")]
    if session.settings.believes_reads {
        return believe_reads(session, member).await;
    }
    let (driver, lease, settings) = (&session.driver, session.lease(), &session.settings);
    let clock = lease.clock();
    let period = proof.period();
    let label = settings.label.as_bytes();
    let mut next = proof.next_send();
    loop {
        clock.sleep_until(next).await;
        if driver.connected().await.is_err() {
            return;
        }
        let sent = clock.now();
        // A short lease has not so much left: the silence is told before the loss all the same.
        lease.awaiting(sent, sent + period.min(lease.deadline().since(sent) / 2));
        let written = match driver.write_until_lost(member, label).await {
            // Removed by somebody: made again, which is a write as good as any.
            Err(Fault::NoNode) => make_again(driver, member, label).await,
            written => written,
        };
        match written {
            Ok(stat) => {
                let answered = clock.now();
                *session.server_time.lock() = (stat.mtime, answered);
                session.seen.fetch_max(stat.mzxid, Ordering::AcqRel);
                if let Some(deadline) = proof.acknowledged(sent, answered) {
                    lease.proven_until(sent, deadline);
                }
                next = proof.next_send();
            }
            Err(Fault::Gone) => return,
            Err(fault) => {
                tracing::debug!(?fault, "a proof of contact failed");
                lease.suspend();
                // What is refused outright is not asked for in a tight loop.
                next = clock.now() + period / 4;
            }
        }
        lease.tick();
    }
}

/// Makes this client's node again, and its directory where that was removed too.
async fn make_again(driver: &Driver, member: &str, label: &[u8]) -> std::result::Result<Stat, Fault> {
    match driver.create(member, label, Mode::Ephemeral).await {
        Err(Fault::NoNode) => {
            let directory = member.rsplit_once('/').map_or("", |(directory, _)| directory);
            driver.make_path(directory, Mode::Persistent).await?;
            driver.create(member, label, Mode::Ephemeral).await
        }
        made => made,
    }
}

/// The plain directories of a namespace.
fn directories(settings: &Settings) -> Vec<String> {
    let kinds = [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Election].map(Kind::as_str);
    let names = kinds.into_iter().chain([LIMITS, RELEASED, CLIENTS]);
    names.map(|name| format!("/{}/{name}", settings.namespace)).collect()
}

/// Reads whom the namespace trusts, and warns where that is everybody though there is a login.
async fn look_at_acls(driver: &Driver, settings: &Settings) -> Result<Trust> {
    let mut paths = directories(settings);
    paths.push(format!("/{}", settings.namespace));
    let chroot = settings.chroot.as_deref().unwrap_or_default();
    let found = driver.grants(&paths).await.map_err(|fault| {
        fault.error_without_trace(&format!("read the ACLs of the namespace {chroot}/{}", settings.namespace))
    })?;
    let of = |end: &str| {
        let at = paths.iter().position(|path| path.rsplit('/').next() == Some(end))?;
        found[at].as_deref()
    };
    let open = |found: &Option<Vec<Grant>>| found.as_deref().is_some_and(is_open);
    let unguarded: Vec<_> =
        paths.iter().zip(&found).filter(|(_, found)| open(found)).map(|(path, _)| path.as_str()).collect();
    if settings.login.is_some() && !unguarded.is_empty() {
        tracing::warn!(
            namespace = %format_args!("{chroot}/{}", settings.namespace),
            open_to_everybody = %unguarded.join(" "),
            "the login does not protect this namespace: these directories were made without it, and everybody may delete what is in \
             them. Set their ACLs (zkCli: addauth digest user:password, then setAcl -R {chroot}/{} auth::cdrwa)",
            settings.namespace,
        );
    }
    Ok(Trust::of(of(RELEASED), of(Kind::Mutex.as_str())))
}

/// Makes the plain directories that are missing, and this client's own node.
async fn make_member(driver: &Driver, settings: &Settings, member: &str) -> Result<Stat> {
    let paths = directories(settings);
    let chroot = settings.chroot.as_deref().unwrap_or_default();
    let found = driver.read_all(&paths).await;
    let found = found.map_err(|fault| {
        fault.error_without_trace(&format!("read the namespace {chroot}/{}", settings.namespace))
    })?;
    for (path, _) in paths.iter().zip(found).filter(|(_, found)| found.is_none()) {
        let made = driver.make_path(path, Mode::Persistent).await;
        if path.ends_with(RELEASED) && matches!(made, Err(Fault::Forbidden(_))) {
            tracing::warn!(
                path,
                "it may not be made: releases are not told, and whoever waits behind several lists"
            );
            continue;
        }
        made.map_err(|fault| fault.error_without_trace(&format!("create {chroot}{path}")))?;
    }
    let made = driver.create(member, settings.label.as_bytes(), Mode::Ephemeral).await;
    made.map_err(|fault| fault.error_without_trace(&format!("create {chroot}{member}")))
}

fn connect_error(fault: Fault, settings: &Settings) -> Error {
    let chroot = |what: &str| match &settings.chroot {
        Some(chroot) => format!("{what} the chroot {chroot}"),
        None => "log in".to_owned(),
    };
    match fault {
        Fault::Forbidden(_) => fault.error(&chroot("log in, or create")),
        Fault::Refused(_) => fault.error(&chroot("use")),
        Fault::NoNode | Fault::NodeExists => fault.error(&chroot("create")),
        other => {
            let error = Error::new(
                ErrorKind::Unavailable,
                format!("no session could be opened at {}", settings.hosts.join(",")),
            );
            match other {
                Fault::Unknown(Unheard { answer: Some(answer), .. }) => error.because(answer),
                _ => error,
            }
        }
    }
}
