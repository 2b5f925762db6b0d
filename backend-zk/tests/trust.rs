//! Whom a namespace trusts: a release that nobody made lets nobody in, and a login that protects nothing is warned of.

mod common;

use std::io::{self, Write};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{
    address, admitted, backend, config, holds, join, one_proxied, server, soon, still_waits, stranger,
    waiting,
};
use latchwork_core::contracts::{Backend, Node};
use latchwork_core::decide::Claim::Exclusive;
use latchwork_core::{Address, Config, Kind, LostReason, Secret};
use zookeeper_client::{Acls, Client, CreateMode};

/// The request that lists.
const LIST: i32 = 8;

/// One that holds, two that wait behind it, of which the second will tell its release, and the last.
struct Line {
    queue: Address,
    holder: Arc<dyn Node>,
    second: Arc<dyn Node>,
    neighbour: Arc<dyn Node>,
    last: Arc<dyn Node>,
}

impl Line {
    async fn of(config: &Config, key: &str, ahead: &Arc<dyn Backend>, client: &Arc<dyn Backend>) -> Self {
        let queue = address(config, Kind::Mutex, key);
        let holder = admitted(ahead.join(&join(&queue, Exclusive)).await);
        let second = waiting(ahead.join(&join(&queue, Exclusive)).await);
        let neighbour = waiting(ahead.join(&join(&queue, Exclusive)).await);
        let last = waiting(client.join(&join(&queue, Exclusive)).await);
        Self { queue, holder, second, neighbour, last }
    }

    /// The name of the neighbour's node.
    async fn neighbours_name(&self, config: &Config, stranger: &Client) -> String {
        let names = stranger.list_children(&directory(config, self.queue.name())).await.unwrap();
        names.into_iter().find(|name| name.ends_with("-0000000002")).unwrap()
    }
}

fn directory(config: &Config, key: &str) -> String {
    format!("/{}/mutex/{key}", config.namespace)
}

/// Says that the node of this name is released, in one transaction; and deletes it in the same, where its path is given.
async fn forge(stranger: &Client, config: &Config, name: &str, deleted: Option<&str>) {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let told = format!("/{}/released/{name}", config.namespace);
    let mut all = stranger.new_multi_writer();
    all.add_create(&told, b"", &options).unwrap();
    all.add_delete(&told, None).unwrap();
    if let Some(path) = deleted {
        all.add_delete(path, None).unwrap();
    }
    all.commit().await.unwrap();
}

#[tokio::test]
async fn a_node_made_and_deleted_where_releases_are_told_lets_nobody_in() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let (one, other) = (backend(&config).await, backend(&config).await);
    let line = Line::of(&config, "a", &other, &one).await;
    let name = line.neighbours_name(&config, &stranger).await;
    let mut admission = pin!(line.last.admitted());
    assert!(still_waits(&one, &line.queue, &mut admission).await);
    forge(&stranger, &config, &name, None).await;
    assert!(still_waits(&one, &line.queue, &mut admission).await);
    // Nor does it so when the neighbour gives its wait up later.
    tokio::time::sleep(Duration::from_millis(60)).await;
    line.neighbour.leave().await.unwrap();
    assert!(still_waits(&one, &line.queue, &mut admission).await);
    line.holder.leave().await.unwrap();
    line.second.leave().await.unwrap();
    soon(admission).await.unwrap();
    line.last.leave().await.unwrap();
}

/// By somebody who may delete nodes of queues, and could let two in anyhow.
#[tokio::test]
async fn who_was_let_in_by_a_forged_release_is_put_out_and_out_of_the_way() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let (one, other) = (backend(&config).await, backend(&config).await);
    let line = Line::of(&config, "a", &other, &one).await;
    let name = line.neighbours_name(&config, &stranger).await;
    let mut admission = pin!(line.last.admitted());
    assert!(still_waits(&one, &line.queue, &mut admission).await);
    let path = format!("{}/{name}", directory(&config, "a"));
    forge(&stranger, &config, &name, Some(&path)).await;
    soon(&mut admission).await.expect("it looks like a release");
    assert_eq!(soon(line.last.state().until_lost()).await, LostReason::Revoked);
    assert_eq!(line.holder.state().lost(), None);
    let behind = waiting(other.join(&join(&line.queue, Exclusive)).await);
    line.holder.leave().await.unwrap();
    line.second.leave().await.unwrap();
    soon(behind.admitted()).await.unwrap();
    behind.leave().await.unwrap();
}

/// Where more may tell than may delete, a release is told to nobody: who waits lists.
#[tokio::test]
async fn what_others_may_tell_is_not_believed() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    for open in [false, true] {
        let config = with_login(&config(addr));
        // As connecting makes them, with the login.
        backend(&config).await;
        if open {
            let owner = owner(addr).await;
            let told_in = format!("/{}/released", config.namespace);
            owner.set_acl(&told_in, Acls::anyone_all().as_ref(), None).await.unwrap();
            forge(&stranger, &config, "x", None).await;
        }
        let (proxy, [one, other]) = one_proxied(&config).await;
        let line = Line::of(&config, "a", &other, &one).await;
        let mut admission = pin!(line.last.admitted());
        assert!(still_waits(&one, &line.queue, &mut admission).await);
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        line.holder.leave().await.unwrap();
        for ahead in [&line.second, &line.neighbour] {
            soon(ahead.admitted()).await.unwrap();
            ahead.leave().await.unwrap();
        }
        soon(admission).await.unwrap();
        assert_eq!(listed.has_fired(), open);
        line.last.leave().await.unwrap();
    }
}

fn with_login(config: &Config) -> Config {
    let mut config = config.clone();
    (config.user, config.password) = (Some("app".to_owned()), Some(Secret::new("secret")));
    config
}

async fn owner(addr: &str) -> Client {
    Client::connector().with_auth("digest", b"app:secret").connect(addr).await.unwrap()
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_login_for_a_namespace_that_was_made_without_one_is_warned_of() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _listening = tracing::subscriber::set_default(subscriber);
    let warned = || {
        let text = String::from_utf8(std::mem::take(&mut *log.0.lock().unwrap())).unwrap();
        text.lines().filter(|line| line.contains("does not protect")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (made_with, made_without) = (config(server().await.addr()), config(server().await.addr()));
    backend(&made_without).await;
    backend(&with_login(&made_with)).await;
    assert_eq!(warned(), [""; 0], "without a login there is nothing to protect, with one all is protected");
    backend(&with_login(&made_with)).await;
    assert_eq!(warned(), [""; 0]);
    backend(&with_login(&made_without)).await;
    let warned = warned();
    assert_eq!(warned.len(), 1, "{warned:?}");
    for named in ["mutex", "released", "client"].map(|name| format!("/{}/{name}", made_without.namespace)) {
        assert!(warned[0].contains(&named), "{warned:?}");
    }
}
