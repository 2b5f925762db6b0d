use std::sync::Arc;

use crate::common::{Running, field, keys, served, soon, still_waits, until_keys, value, wait};
use latchwork_conformance::actions::{entered, join_of};
use latchwork_conformance::errors::refuses;
use latchwork_core::backend::{EntryPage, Join, Joined, Leave, MAX_LABEL_BYTES, Node, Patience, QueueEntry};
use latchwork_core::{Address, Claim, Coordinator, Key, Kind, Result};

const NAME: &str = "jobs/leader";

fn exact() -> Address {
    Address::new("latchwork", Kind::Election, Key::exact(NAME)).unwrap()
}

async fn ask(client: &Coordinator, data: &[u8], patience: Patience) -> Result<Joined> {
    let join = Join { data: data.into(), patience, ..join_of(&exact(), Claim::Exclusive) };
    soon(client.backend().join(&join)).await
}

/// Returns whether the node leads at once.
async fn stand(client: &Coordinator, data: &[u8]) -> (bool, Arc<dyn Node>) {
    entered(ask(client, data, Patience::Wait).await)
}

async fn list(client: &Coordinator) -> Vec<QueueEntry> {
    soon(client.backend().list(&exact(), EntryPage::new(0, 10))).await.unwrap()
}

async fn next(etcdctl: &mut Running) -> (String, String) {
    (etcdctl.line().await, etcdctl.line().await)
}

#[tokio::test]
async fn etcdctl_elect_waits_for_us_and_we_for_it() {
    let (server, client) = served("").await;
    let (leads, ours) = stand(&client, b"ours").await;
    assert!(leads);
    let own = keys(&server, "jobs/").await.remove(0);
    assert!(own.starts_with("jobs/leader/"), "{own}");
    assert_eq!(value(&server, &own).await, "ours", "the proposal is the whole value");

    let mut other = Running::start(&server, &["elect", NAME, "theirs"]);
    let waiting = until_keys(&server, "jobs/", 2).await;
    other.is_silent().await;
    assert!(matches!(ask(&client, b"", Patience::Try).await, Ok(Joined::Refused)));
    assert_eq!(keys(&server, "jobs/").await, waiting, "a refused try leaves nothing");

    assert_eq!(soon(ours.leave()).await.unwrap(), Leave::Removed);
    let (key, printed) = next(&mut other).await;
    assert!(waiting.contains(&key) && key != own, "{key}");
    assert_eq!(printed, "theirs");
    assert!(matches!(ask(&client, b"", Patience::Try).await, Ok(Joined::Refused)));
    let (leads, last) = stand(&client, b"last").await;
    assert!(!leads, "two lead");
    let mut wins = wait(&last);
    still_waits(&mut wins).await;
    let listed = list(&client).await;
    let shown: Vec<_> =
        listed.iter().map(|entry| (entry.admitted, entry.label.as_str(), &*entry.data)).collect();
    assert_eq!(shown, [(true, "theirs", &b"theirs"[..]), (false, "last", b"last")]);

    other.interrupt().await;
    soon(wins).await.unwrap().unwrap();
    assert!(last.state().sequence() > ours.state().sequence(), "terms rise");
    client.close().await.unwrap();
    assert_eq!(keys(&server, "").await, [""; 0]);
}

#[tokio::test]
async fn etcdctl_listen_and_our_watch_see_each_others_proposals() {
    let (server, client) = served("").await;
    let (_, ours) = stand(&client, b"first").await;
    let own = keys(&server, "jobs/").await.remove(0);
    let mut observer = Running::start(&server, &["elect", "--listen", NAME]);
    assert_eq!(next(&mut observer).await, (own.clone(), "first".to_owned()));
    for proposal in ["second", "third, and a longer one"] {
        soon(ours.write_data(&proposal.as_bytes().into())).await.unwrap();
        assert_eq!(next(&mut observer).await, (own.clone(), proposal.to_owned()));
    }
    let created = field(&server, &own, "CreateRevision").await;
    assert_eq!(created, Some(ours.state().sequence()), "the term stays");

    let mut watch = client.backend().watch_queue(&exact());
    soon(watch.changed()).await.unwrap();
    let other = Running::start(&server, &["elect", NAME, "theirs"]);
    until_keys(&server, "jobs/", 2).await;
    soon(watch.changed()).await.unwrap();
    assert_eq!(soon(ours.leave()).await.unwrap(), Leave::Removed);
    soon(watch.changed()).await.unwrap();
    let (_, theirs) = next(&mut observer).await;
    assert_eq!(theirs, "theirs");
    let listed = list(&client).await;
    assert_eq!(listed.len(), 1);
    assert!(listed[0].admitted && listed[0].data == b"theirs"[..].into(), "{listed:?}");
    other.interrupt().await;
    soon(watch.changed()).await.unwrap();
    assert!(list(&client).await.is_empty());
}

#[tokio::test]
async fn any_bytes_are_a_proposal_and_another_programs_may_be_as_long_as_it_likes() {
    let (server, client) = served("").await;
    let (_, node) = stand(&client, b"").await;
    assert_eq!((&*list(&client).await[0].data, &*list(&client).await[0].label), (&b""[..], ""));
    let odd: Arc<[u8]> = (0..=255).cycle().take(MAX_LABEL_BYTES).collect();
    soon(node.write_data(&odd)).await.unwrap();
    let listed = list(&client).await;
    assert_eq!(listed[0].data, odd);
    assert!(!listed[0].label.chars().any(char::is_control), "a label acts on no terminal");
    let mut program = etcd_client::Client::connect([server.addr()], None).await.unwrap();
    let lease = program.lease_grant(60, None).await.unwrap().id();
    let leased = || Some(etcd_client::PutOptions::new().with_lease(lease));
    for number in 0..40 {
        program.put(format!("{NAME}/{number}"), vec![b'x'; 1 << 20], leased()).await.unwrap();
    }
    let page = EntryPage::new(0, 100);
    let listed = soon(client.backend().list(&exact(), page)).await.unwrap();
    assert_eq!((listed.len(), listed[40].data.len()), (41, 1 << 20));
    program.lease_revoke(lease).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn an_election_and_a_mutex_of_one_exact_name_exclude_each_other() {
    let (_server, client) = served("").await;
    let (_, node) = stand(&client, b"leads").await;
    let mutex = client.mutex(Key::exact(NAME)).unwrap();
    assert!(soon(mutex.try_acquire()).await.unwrap().is_none());
    assert_eq!(soon(node.leave()).await.unwrap(), Leave::Removed);
    let held = soon(mutex.try_acquire()).await.unwrap().expect("it is free");
    assert!(matches!(ask(&client, b"", Patience::Try).await, Ok(Joined::Refused)));
    held.release().await.unwrap();
    // This library stores its own keys there.
    for own in ["latchwork/counter", "latchwork/data/semaphore/a", "latchwork/value"] {
        let name = Key::exact(own);
        let refused = Address::new("latchwork", Kind::Election, name).unwrap();
        refuses(client.backend().list(&refused, EntryPage::new(0, 1)).await, "key");
        refuses(soon(client.backend().watch_queue(&refused).changed()).await, "key");
    }
    client.close().await.unwrap();
}
