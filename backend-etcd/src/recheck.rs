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
    let gone = held.iter().zip(outcome.reads).filter(|(own, read)| !own.is_in(read));
    // Seen to be gone at one instant: of one incarnation or none.
    let mut why = None;
    for (own, _) in gone {
        let why = match why {
            Some(why) => why,
            None => *why.insert(driver.why_gone(&own.key, own.state.sequence()).await),
        };
        watches.removed(own, why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use etcd_client::{Client, Permission};
    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::contracts::{LeaseKeeper, NodeKeeper};
    use latchwork_core::{Clock, LostReason, Secret};

    use super::*;

    /// A client's nodes on a server. There is no stream: nothing else can tell of them.
    struct Held {
        driver: Driver,
        watches: Arc<Watches>,
        lease: LeaseKeeper,
    }

    impl Held {
        async fn on(server: &Server) -> Self {
            let clock = Clock::system();
            let lease = LeaseKeeper::new(clock.clone(), Duration::from_secs(3600), clock.now());
            Self { driver: Driver::of(server).await, watches: Watches::new().0, lease }
        }

        async fn put(&self, key: &str) -> u64 {
            let put = Step::Put { key: key.to_owned(), value: Vec::new(), lease: 0 };
            self.driver.transact(Vec::new(), vec![put], Vec::new()).await.unwrap().revision
        }

        async fn hold(&self, key: &str) -> Arc<Own> {
            let made = self.put(key).await;
            let state = NodeKeeper::new(self.lease.clone(), made);
            let own = Arc::new(Own { key: key.as_bytes().into(), state, left: None });
            self.watches.register(Arc::clone(&own));
            self.watches.watch_own_from(&own, made);
            own
        }

        /// Looks at them by this connection, until those are told that they were removed.
        async fn until_told(&self, driver: Driver, removed: &[&Own]) {
            let clock = Clock::system();
            // Only its pace counts.
            let pace = LeaseKeeper::new(clock.clone(), Duration::from_millis(50), clock.now());
            let looks = tokio::spawn(run(driver, Arc::clone(&self.watches), pace.into()));
            for removed in removed {
                let told = tokio::time::timeout(Duration::from_secs(60), removed.state.until_lost());
                assert_eq!(told.await.expect("it is told"), LostReason::Revoked);
            }
            looks.abort();
        }
    }

    async fn server() -> Server {
        Server::start(Kind::Etcd, Options::new().own()).await.unwrap()
    }

    #[tokio::test]
    async fn a_removal_that_no_event_told_is_told() {
        let server = server().await;
        let client = Held::on(&server).await;
        let mut held = Vec::new();
        // More than one request looks at.
        for number in 0..2 * TOGETHER {
            held.push(client.hold(&format!("q/{number}")).await);
        }
        let removed = [0, 3, 2 * TOGETHER - 1].map(|number| &*held[number]);
        for removed in removed {
            client.driver.delete(&removed.key).await.unwrap();
        }
        // Another's, of the same name.
        client.put("q/3").await;
        client.until_told(client.driver.clone(), &removed).await;
        assert_eq!(client.watches.held().len(), 2 * TOGETHER - 3, "and nobody else");
        assert_eq!(held.iter().filter(|own| own.state.lost().is_some()).count(), 3);
    }

    #[tokio::test]
    async fn a_key_that_may_not_be_read_hides_no_others() {
        let server = server().await;
        let client = Held::on(&server).await;
        let (there, removed, forbidden) =
            (client.hold("q/1").await, client.hold("q/2").await, client.hold("x/3").await);
        client.driver.delete(&removed.key).await.unwrap();
        let mut root = Client::connect([server.addr()], None).await.unwrap();
        for (user, password) in [("root", "secret"), ("app", "hunter2")] {
            root.user_add(user, password, None).await.unwrap();
        }
        root.role_add("locks").await.unwrap();
        root.role_grant_permission("locks", Permission::read_write("q/").with_prefix()).await.unwrap();
        root.user_grant_role("app", "locks").await.unwrap();
        root.user_grant_role("root", "root").await.unwrap();
        root.auth_enable().await.unwrap();
        let login = Some(("app".to_owned(), Secret::new("hunter2")));
        client.until_told(Driver::logged_in_to(&server, login).await, &[&removed]).await;
        assert_eq!((there.state.lost(), forbidden.state.lost()), (None, None));
    }
}
