//! A hold by a forged release does not last. A login that protects no directory causes a warning.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::common::request::LIST;
use crate::common::{
    ALL, address, admitted, backend, config, hear, holds, join, one_proxied, owner, place, server, soon,
    still_waits, stranger, waiting, with_login,
};
use latchwork_conformance::actions::{leave_all, take_a_turn};
use latchwork_conformance::log::{self, Log};
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, Node};
use latchwork_core::{Address, Config, Kind, LostReason};
use tracing::Level;
use zookeeper_client::{Acls, Client, CreateMode};

/// The second waiter will announce its release.
struct Line {
    queue: Address,
    holder: Arc<dyn Node>,
    second: Arc<dyn Node>,
    predecessor: Arc<dyn Node>,
    last: Arc<dyn Node>,
}

impl Line {
    async fn of(config: &Config, key: &str, ahead: &Arc<dyn Backend>, client: &Arc<dyn Backend>) -> Self {
        let queue = address(config, Kind::Mutex, key);
        let holder = admitted(ahead.join(&join(&queue, Exclusive)).await);
        let second = waiting(ahead.join(&join(&queue, Exclusive)).await);
        let predecessor = waiting(ahead.join(&join(&queue, Exclusive)).await);
        let last = waiting(client.join(&join(&queue, Exclusive)).await);
        Self { queue, holder, second, predecessor, last }
    }

    async fn predecessors_name(&self, config: &Config, stranger: &Client) -> String {
        let mut names = stranger.list_children(&directory(config, self.queue.name())).await.unwrap();
        names.sort_by_key(|name| name[name.len() - 10..].to_owned());
        names.swap_remove(2)
    }

    async fn is_deceived(&self, config: &Config, stranger: &Client, client: &Arc<dyn Backend>) {
        let mut admission = pin!(self.last.admitted());
        assert!(still_waits(client, &self.queue, &mut admission).await);
        let name = self.predecessors_name(config, stranger).await;
        let path = format!("{}/{name}", directory(config, self.queue.name()));
        forge(stranger, config, &name, Some(&path)).await;
        hear(client, config).await;
        soon(admission).await.expect("the deletion looks like a release");
        assert_eq!(soon(self.last.state().until_lost()).await, LostReason::Revoked);
    }
}

async fn line_and_stranger() -> (Config, Client, [Arc<dyn Backend>; 2], Line) {
    let (config, one, stranger) = place().await;
    let other = backend(&config).await;
    let line = Line::of(&config, "a", &other, &one).await;
    (config, stranger, [one, other], line)
}

fn directory(config: &Config, key: &str) -> String {
    format!("/{}/mutex/{key}", config.namespace)
}

/// `deleted`: a node to delete in the same transaction.
async fn forge(stranger: &Client, config: &Config, name: &str, deleted: Option<&str>) {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let released = format!("/{}/released/{name}", config.namespace);
    let mut all = stranger.new_multi_writer();
    all.add_create(&released, b"", &options).unwrap();
    all.add_delete(&released, None).unwrap();
    if let Some(path) = deleted {
        all.add_delete(path, None).unwrap();
    }
    all.commit().await.unwrap();
}

#[tokio::test]
async fn announcement_without_a_release_admits_no_waiter() {
    let (config, stranger, [one, _other], line) = line_and_stranger().await;
    let name = line.predecessors_name(&config, &stranger).await;
    let mut admission = pin!(line.last.admitted());
    assert!(still_waits(&one, &line.queue, &mut admission).await);
    forge(&stranger, &config, &name, None).await;
    assert!(still_waits(&one, &line.queue, &mut admission).await);
    tokio::time::sleep(Duration::from_millis(60)).await;
    line.predecessor.leave().await.unwrap();
    assert!(still_waits(&one, &line.queue, &mut admission).await);
    line.holder.leave().await.unwrap();
    line.second.leave().await.unwrap();
    soon(admission).await.unwrap();
    line.last.leave().await.unwrap();
}

/// The program may delete nodes of queues, and so could cause two holders anyway.
#[tokio::test]
async fn hold_by_forged_release_is_lost_and_admits_no_waiter() {
    let (config, stranger, [one, other], line) = line_and_stranger().await;
    let next = waiting(other.join(&join(&line.queue, Exclusive)).await);
    let mut next_admission = pin!(next.admitted());
    assert!(still_waits(&other, &line.queue, &mut next_admission).await);
    line.is_deceived(&config, &stranger, &one).await;
    assert_eq!(line.holder.state().lost(), None);
    soon(async { while one.list(&line.queue, ALL).await.unwrap().len() > 3 {} }).await;
    assert!(still_waits(&other, &line.queue, &mut next_admission).await);
    line.holder.leave().await.unwrap();
    line.second.leave().await.unwrap();
    soon(next_admission).await.unwrap();
    next.leave().await.unwrap();
}

#[tokio::test]
async fn forged_release_does_not_prove_an_empty_queue() {
    let (config, one, stranger) = place().await;
    let other = backend(&config).await;
    // A higher counter shows for longer that the directory is the same.
    for _ in 0..20 {
        let before = other.join(&join(&address(&config, Kind::Mutex, "a"), Exclusive)).await;
        admitted(before).leave().await.unwrap();
    }
    let line = Line::of(&config, "a", &other, &one).await;
    line.is_deceived(&config, &stranger, &one).await;
    line.last.leave().await.unwrap();
    let again = waiting(one.join(&join(&line.queue, Exclusive)).await);
    leave_all([again, line.second, line.holder]).await;
}

/// More identities may announce than may delete.
#[tokio::test]
async fn announcements_that_others_may_make_are_not_believed() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    for open in [false, true] {
        let config = with_login(&config(addr));
        backend(&config).await;
        if open {
            let released = format!("/{}/released", config.namespace);
            owner(addr).await.set_acl(&released, Acls::anyone_all().as_ref(), None).await.unwrap();
            forge(&stranger, &config, "x", None).await;
        }
        let (proxy, [one, other]) = one_proxied(&config).await;
        let line = Line::of(&config, "a", &other, &one).await;
        let mut admission = pin!(line.last.admitted());
        assert!(still_waits(&one, &line.queue, &mut admission).await);
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        line.holder.leave().await.unwrap();
        for ahead in [&line.second, &line.predecessor] {
            take_a_turn(ahead).await;
        }
        hear(&one, &config).await;
        soon(admission).await.unwrap();
        assert_eq!(listed.has_fired(), open);
        line.last.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_login_for_a_namespace_that_was_made_without_one_is_warned_of() {
    // In a shared process, other tests would change which events are logged.
    if !latchwork_conformance::own_process!() {
        return;
    }
    let log = Log::listen();
    let mut seen = 0;
    let mut warned = || {
        let lines = log.lines().split_off(seen);
        seen += lines.len();
        let warns =
            |line: &log::Line| line.level == Level::WARN && line.field("what").contains("does not protect");
        lines.into_iter().filter(warns).map(|line| format!("{line:?}")).collect::<Vec<_>>()
    };
    let (made_with, made_without) = (config(server().await.addr()), config(server().await.addr()));
    backend(&made_without).await;
    backend(&with_login(&made_with)).await;
    assert_eq!(warned(), [""; 0], "no warning without a login, and none if all directories are protected");
    backend(&with_login(&made_with)).await;
    assert_eq!(warned(), [""; 0]);
    backend(&with_login(&made_without)).await;
    let warned = warned();
    assert_eq!(warned.len(), 1, "{warned:?}");
    for named in ["mutex", "released", "client"].map(|name| format!("/{}/{name}", made_without.namespace)) {
        assert!(warned[0].contains(&named), "{warned:?}");
    }
}
