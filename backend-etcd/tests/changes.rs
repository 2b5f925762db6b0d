use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use crate::common::{Running, client, etcdctl, join, keys, queue, served, soon, until_keys, wait};
use latchwork_core::backend::EntryPage;
use latchwork_core::{Address, Claim, Key, Kind};

const WRITER: Claim = Claim::Exclusive;
const EVERYTHING: EntryPage = EntryPage::new(0, usize::MAX);

/// Well before the re-check, once a TTL.
const PROMPT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn node_that_leaves_out_of_turn_delays_no_waiter() {
    let (server, a) = served("ttl=60s").await;
    let b = client(&server, "ttl=60s").await;
    let (_, holder) = join(&a, Kind::Mutex, WRITER, None).await;
    let mut ahead = vec![holder];
    for _ in 0..20 {
        ahead.push(join(&a, Kind::Mutex, WRITER, None).await.1);
    }
    let (_, last) = join(&b, Kind::Mutex, WRITER, None).await;
    let waiting = wait(&last);
    let started = Instant::now();
    ahead.pop().unwrap().leave().await.unwrap();
    for node in ahead {
        assert!(!waiting.is_finished());
        node.leave().await.unwrap();
    }
    soon(waiting).await.unwrap().unwrap();
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    last.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/mutex/").await, [""; 0]);
}

#[tokio::test]
async fn a_foreign_holder_is_revoked_at_an_exact_address_only() {
    let (server, client) = served("ttl=60s").await;
    let revoke_first = async |queue: &Address| {
        let listed = client.backend().list(queue, EVERYTHING).await.unwrap();
        client.backend().revoke(queue, listed[0].sequence).await.unwrap()
    };
    let exact = Address::new("latchwork", Kind::Mutex, Key::exact("jobs/x")).unwrap();
    let mutex = client.mutex(Key::exact("jobs/x")).unwrap();

    let _other = Running::start(&server, &["lock", "jobs/x"]);
    until_keys(&server, "jobs/x/", 1).await;
    let acquiring = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    until_keys(&server, "jobs/x/", 2).await;
    assert!(revoke_first(&exact).await);
    let hold = soon(acquiring).await.unwrap();
    hold.release().await.unwrap();

    // A name that is not text counts while its lease exists.
    let granted = etcdctl(&server, &["lease", "grant", "60"]).await;
    let lease = format!("--lease={}", granted.split(' ').nth(1).unwrap());
    let put =
        [OsStr::new("put"), OsStr::new(&lease), OsStr::from_bytes(b"jobs/x/\xff"), OsStr::new("by hand")];
    etcdctl(&server, &put).await;
    assert!(revoke_first(&exact).await);
    assert_eq!(client.backend().list(&exact, EVERYTHING).await.unwrap().len(), 0);

    // In this library's layout a foreign key does not count, and remains.
    etcdctl(&server, &["put", "latchwork/mutex/a/notes", "by hand"]).await;
    let (_, node) = join(&client, Kind::Mutex, WRITER, None).await;
    let queue = queue(Kind::Mutex);
    assert!(!client.backend().revoke(&queue, node.state().sequence() - 1).await.unwrap());
    assert!(revoke_first(&queue).await);
    assert_eq!(keys(&server, "latchwork/").await, ["latchwork/mutex/a/notes"]);
}
