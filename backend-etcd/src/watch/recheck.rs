//! Finds a removal whose event was lost (NODE-GONE): once a TTL, of all nodes held for longer.

use std::sync::Arc;

use latchwork_core::backend::{Backoff, Pauses};
use latchwork_core::{Clock, Error, Lease};

use super::own_node::OwnNode;
use super::watches::Watches;
use crate::config::OPS_PER_TXN;
use crate::driver::{Driver, Op};

pub(crate) async fn run(driver: Driver, watches: Arc<Watches>, lease: Lease) {
    let (ttl, clock) = (lease.ttl(), lease.clock());
    // The highest create revision of the last round.
    let mut before = 0;
    loop {
        clock.sleep_until(clock.now() + ttl).await;
        let mut held = watches.watched();
        let newest = held.iter().map(|own| own.state.sequence()).max().unwrap_or(0);
        held.retain(|own| own.state.sequence() <= before);
        before = newest;
        for some in held.chunks(OPS_PER_TXN) {
            if check_until_answered(&driver, &watches, some, clock).await.is_err() {
                // A key that this user may not read must not hide the others.
                for one in some.chunks(1) {
                    let _ = check_until_answered(&driver, &watches, one, clock).await;
                }
            }
        }
    }
}

async fn check_until_answered(
    driver: &Driver,
    watches: &Watches,
    held: &[Arc<OwnNode>],
    clock: &Clock,
) -> Result<(), Error> {
    let mut backoff = Backoff::new(Pauses::OUTAGE);
    loop {
        match check(driver, watches, held).await {
            Err(error) if error.may_pass() => {
                tracing::debug!(%error, "could not check the held nodes; the client tries again");
                backoff.wait(clock).await;
            }
            answer => {
                return answer.inspect_err(
                    |error| tracing::debug!(%error, "the server refused the check of held nodes"),
                );
            }
        }
    }
}

async fn check(driver: &Driver, watches: &Watches, held: &[Arc<OwnNode>]) -> Result<(), Error> {
    let keys = held.iter().map(|own| Op::Get(own.key.to_vec())).collect();
    let outcome = driver.read(keys).await?;
    let gone = held.iter().zip(outcome.reads).filter(|(own, read)| !own.is_in(read));
    // One read shows all of them, so they have one reason.
    let mut why = None;
    for (own, _) in gone {
        let why = match why {
            Some(why) => why,
            None => *why.insert(driver.why_gone(&own.key, own.state.sequence()).await),
        };
        driver.rechecks.found_loss();
        watches.removed(own, why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use etcd_client::{Client, Permission};
    use latchwork_conformance::recorder::Recorder;
    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::backend::{LeaseWriter, NodeWriter};
    use latchwork_core::{LostReason, Secret};

    use super::*;
    use crate::driver::Txn;

    /// Without a stream of watches, so only the re-check notices a removal.
    struct Held {
        driver: Driver,
        watches: Arc<Watches>,
        lease: LeaseWriter,
    }

    impl Held {
        async fn on(server: &Server) -> Self {
            let clock = Clock::system();
            let lease = LeaseWriter::new(clock.clone(), Duration::from_secs(3600), clock.now());
            Self { driver: Driver::of(server).await, watches: Watches::new().0, lease }
        }

        async fn put(&self, key: &str) -> u64 {
            let put = Op::Put { key: key.to_owned(), value: Vec::new(), lease: 0 };
            self.driver.txn(Txn::always(vec![put])).await.unwrap().revision
        }

        async fn hold(&self, key: &str) -> Arc<OwnNode> {
            let created = self.put(key).await;
            let state = NodeWriter::new(self.lease.clone(), created);
            let own = Arc::new(OwnNode { key: key.as_bytes().into(), state, left: None });
            self.watches.register(Arc::clone(&own));
            self.watches.watch_own_from(&own, created);
            own
        }

        async fn until_lost(&self, driver: Driver, removed: &[&OwnNode]) {
            let clock = Clock::system();
            let pace = LeaseWriter::new(clock.clone(), Duration::from_millis(50), clock.now());
            let checks = tokio::spawn(run(driver, Arc::clone(&self.watches), pace.into()));
            for removed in removed {
                let lost = tokio::time::timeout(Duration::from_secs(60), removed.state.until_lost());
                assert_eq!(lost.await.expect("the removal is noticed"), LostReason::Revoked);
            }
            checks.abort();
        }
    }

    async fn server() -> Server {
        Server::start(Kind::Etcd, Options::new().own()).await.unwrap()
    }

    #[tokio::test]
    async fn a_removal_without_an_event_is_noticed() {
        let (server, recorder) = (server().await, Recorder::new());
        let client = recorder.scope(Held::on(&server)).await;
        let found = || recorder.sum("latchwork_rechecks_found_total", &[("what", "hold")]);
        assert_eq!(found(), 0.0);
        let mut held = Vec::new();
        for number in 0..2 * OPS_PER_TXN {
            held.push(client.hold(&format!("q/{number}")).await);
        }
        let removed = [0, 3, 2 * OPS_PER_TXN - 1].map(|number| &*held[number]);
        for removed in removed {
            client.driver.delete(&removed.key).await.unwrap();
        }
        client.put("q/3").await;
        client.until_lost(client.driver.clone(), &removed).await;
        assert_eq!(client.watches.watched().len(), 2 * OPS_PER_TXN - 3, "no other watch has ended");
        assert_eq!(held.iter().filter(|own| own.state.lost().is_some()).count(), 3);
        assert_eq!(found(), 3.0, "each removal counts once");
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
        client.until_lost(Driver::logged_in_to(&server, login).await, &[&removed]).await;
        assert_eq!((there.state.lost(), forbidden.state.lost()), (None, None));
    }
}
