//! A look, once a TTL, at what this client has held for longer than one. Its removal is told by a watch; this heals an event
//! that the server or the network lost (NODE-GONE).

use std::sync::Arc;

use latchwork_core::Error;
use latchwork_core::contracts::Lease;

use crate::backoff::Backoff;
use crate::driver::Driver;
use crate::terms::Step;
use crate::watch::{Own, Watches};

/// How many nodes one request looks at: a transaction of etcd has at most 128 operations.
const TOGETHER: usize = 100;

/// Runs until it is aborted, at the pace of this lease and of all that follow it.
pub(crate) async fn run(driver: Driver, watches: Arc<Watches>, lease: Lease) {
    let (ttl, clock) = (lease.ttl(), lease.clock());
    // What was there at the last look was made up to this revision.
    let mut before = 0;
    loop {
        clock.sleep_until(clock.now() + ttl).await;
        let mut held = watches.held();
        let newest = held.iter().map(|own| own.state.sequence()).max().unwrap_or(0);
        held.retain(|own| own.state.sequence() <= before);
        before = newest;
        for some in held.chunks(TOGETHER) {
            if look_again_and_again(&driver, &watches, some).await.is_err() {
                // One key that may not be read is not to hide the others.
                for one in some.chunks(1) {
                    let _ = look_again_and_again(&driver, &watches, one).await;
                }
            }
        }
    }
}

/// Looks until there is an answer, or a refusal.
async fn look_again_and_again(driver: &Driver, watches: &Watches, held: &[Arc<Own>]) -> Result<(), Error> {
    let mut backoff = Backoff::new();
    loop {
        match look(driver, watches, held).await {
            Err(error) if error.is_retryable() => {
                tracing::debug!(%error, "what is held could not be looked at yet");
                backoff.pause().await;
            }
            answer => {
                return answer.inspect_err(|error| tracing::debug!(%error, "refused a look at what is held"));
            }
        }
    }
}

async fn look(driver: &Driver, watches: &Watches, held: &[Arc<Own>]) -> Result<(), Error> {
    let keys = held.iter().map(|own| Step::Get(own.key.to_vec())).collect();
    let outcome = driver.read(keys).await?;
    for (own, read) in held.iter().zip(outcome.reads) {
        if read.entries.first().map(|entry| entry.created) != Some(own.state.sequence()) {
            watches.removed(own);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::contracts::NodeState;
    use latchwork_core::{Clock, LostReason};

    use super::*;

    /// There is no stream: nothing else can tell.
    #[tokio::test]
    async fn a_removal_that_no_event_told_is_told() {
        let server = Server::start(Kind::Etcd, Options::new().own()).await.unwrap();
        let driver = Driver::of(&server).await;
        let (watches, _commands) = Watches::new();
        // Only its pace counts.
        let pace = Lease::new(Clock::system(), Duration::from_millis(50), Clock::system().now());
        let lease = Lease::new(Clock::system(), Duration::from_secs(3600), Clock::system().now());
        let mut held = Vec::new();
        // More than one request looks at.
        for number in 0..2 * TOGETHER {
            let key = format!("q/{number}");
            let put = Step::Put { key: key.clone(), value: Vec::new(), lease: 0 };
            let made = driver.transact(Vec::new(), vec![put], Vec::new()).await.unwrap();
            let state = NodeState::new(lease.clone(), made.revision);
            let own = Arc::new(Own { key: key.into_bytes().into(), state, left: None });
            watches.register(Arc::clone(&own));
            watches.watch_own_from(&own, made.revision);
            held.push(own);
        }
        let removed = [0, 3, 2 * TOGETHER - 1];
        for removed in removed {
            driver.delete(&held[removed].key).await.unwrap();
        }
        // Another's, of the same name.
        let put = Step::Put { key: "q/3".to_owned(), value: Vec::new(), lease: 0 };
        driver.transact(Vec::new(), vec![put], Vec::new()).await.unwrap();
        let rechecks = tokio::spawn(run(driver, Arc::clone(&watches), pace));
        for removed in removed {
            let told = tokio::time::timeout(Duration::from_secs(60), held[removed].state.until_lost());
            assert_eq!(told.await.expect("it is told"), LostReason::Revoked);
        }
        rechecks.abort();
        assert_eq!(watches.held().len(), 2 * TOGETHER - 3, "and nobody else");
        assert_eq!(held.iter().filter(|own| own.state.lost().is_some()).count(), 3);
    }
}
