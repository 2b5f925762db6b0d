use super::{cell, deletion, lease, put, put_value, value, written};
use crate::common::{address, backend, config, owner, place, plant, server, soon, stranger, with_login};
use latchwork_conformance::errors::{fails, refuses};
use latchwork_core::backend::CellWritten;
use latchwork_core::{ErrorKind, Expected, Key, Kind};
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Error, Permission};

const KINDS: [Kind; 4] = [Kind::Value, Kind::Counter, Kind::Ids, Kind::Latch];

/// The directories keep the generations.
#[tokio::test]
async fn an_exact_address_makes_its_directories_and_leaves_them() {
    let (config, backend, stranger) = place().await;
    let above = format!("/app-{}/deep", config.namespace);
    for kind in KINDS {
        let at = address(&config, kind, Key::exact(format!("{above}/a")));
        let mut watch = backend.watch_cell(&at);
        soon(watch.changed()).await.unwrap();
        assert_eq!(backend.read_cell(&at).await.unwrap(), None);
        written(backend.write_cell(&at, &put(Expected::Absent, b"first")).await);
        soon(watch.changed()).await.unwrap();
        backend.write_cell(&at, &deletion(Expected::Any)).await.unwrap();
    }
    let mut left = stranger.list_children(&above).await.unwrap();
    left.sort();
    assert_eq!(left, ["counter", "ids", "latch", "value"].map(|kind| format!("a:latchwork-{kind}")));
}

#[tokio::test]
async fn cell_at_an_invalid_address_is_refused() {
    let config = config(server().await.addr());
    let backend = backend(&config).await;
    let exact = |path: &str| address(&config, Kind::Value, Key::exact(path));
    for at in [
        exact("no-path"),
        exact("/zookeeper/a"),
        exact("/a:latchwork-value"),
        exact("/a:latchwork-limit/b"),
        address(&config, Kind::Mutex, "a"),
        address(&config, Kind::Semaphore, Key::exact("/a")),
    ] {
        refuses(backend.read_cell(&at).await, "key");
        refuses(backend.write_cell(&at, &put(Expected::Any, b"x")).await, "key");
        refuses(backend.watch_cell(&at).changed().await, "key");
    }
}

#[tokio::test]
async fn a_strangers_node_is_a_value_whether_it_stays_or_goes_with_a_session() {
    let (config, backend, stranger) = place().await;
    let of = |key: &str| format!("/{}/value/{key}", config.namespace);
    put_value(&backend, &value(&config, "first"), b"").await;
    let at = value(&config, "ephemeral");
    plant(&stranger, &of("ephemeral"), CreateMode::Ephemeral).await;
    let found = cell(&backend, &at).await;
    assert_eq!(&*found.value, b"stranger");
    for write in [put(Expected::Absent, b"x"), deletion(Expected::Absent)] {
        let refused = backend.write_cell(&at, &write).await.unwrap();
        assert_eq!(refused, CellWritten::Refused(Some(found.clone())));
    }
    written(backend.write_cell(&at, &put(Expected::Version(found.version), b"ours")).await);
    assert_eq!(stranger.check_stat(&of("ephemeral")).await.unwrap().unwrap().ephemeral_owner, 0);
    // With children, only its deletion and a change of its life are refused.
    let at = value(&config, "plain");
    plant(&stranger, &of("plain"), CreateMode::Persistent).await;
    plant(&stranger, &of("plain/child"), CreateMode::Persistent).await;
    let found = cell(&backend, &at).await;
    assert_eq!(&*found.value, b"stranger");
    let version = written(backend.write_cell(&at, &put(Expected::Version(found.version), b"ours")).await);
    for expected in [Expected::Any, Expected::Version(version)] {
        for write in [deletion(expected), lease(expected, b"x")] {
            fails(backend.write_cell(&at, &write).await, ErrorKind::Conflict, "the cell has children");
        }
    }
    stranger.delete(&of("plain/child"), None).await.unwrap();
    let deleted = backend.write_cell(&at, &deletion(Expected::Version(version))).await.unwrap();
    assert_eq!(deleted, CellWritten::Deleted { was_there: true });
}

#[tokio::test]
async fn a_directory_that_an_operator_removes_is_made_again() {
    let addr = server().await.addr();
    let mut config = config(addr);
    config.path = format!("root-{}", config.namespace);
    let stranger = stranger(addr).await;
    let backend = backend(&config).await;
    let at = value(&config, "a");
    let directory = format!("/{}/{}/value", config.path, config.namespace);
    for key in ["one", "two"] {
        assert_eq!(backend.read_cell(&at).await.unwrap(), None);
        let none = CellWritten::Deleted { was_there: false };
        assert_eq!(backend.write_cell(&at, &deletion(Expected::Any)).await.unwrap(), none);
        let version = put_value(&backend, &at, key.as_bytes()).await;
        assert_eq!(stranger.get_data(&format!("{directory}/a")).await.unwrap().0, key.as_bytes());
        for node in [format!("{directory}/a"), directory.clone()] {
            stranger.delete(&node, None).await.unwrap();
        }
        let refused = backend.write_cell(&at, &put(Expected::Version(version), b"x")).await.unwrap();
        assert_eq!(refused, CellWritten::Refused(None));
    }
}

#[tokio::test]
async fn cells_are_their_logins_and_a_closed_directory_is_named() {
    let (config, open, plain) = place().await;
    put_value(&open, &value(&config, "a"), b"open").await;
    plain.get_data(&format!("/{}/value/a", config.namespace)).await.unwrap();

    let ours = backend(&with_login(&config)).await;
    let at = address(&config, Kind::Counter, "a");
    put_value(&ours, &at, b"ours").await;
    let path = format!("/{}/counter", config.namespace);
    assert_eq!(plain.get_data(&format!("{path}/a")).await.unwrap_err(), Error::NoAuth);
    let (beside, write) = (address(&config, Kind::Counter, "b"), put(Expected::Any, b"x"));
    fails(open.read_cell(&at).await, ErrorKind::Forbidden, "the cell belongs to another login");
    fails(open.write_cell(&at, &write).await, ErrorKind::Forbidden, "the cell belongs to another login");
    fails(open.write_cell(&beside, &write).await, ErrorKind::Forbidden, "the cell belongs to another login");
    // This client may write the cell, but not create another one.
    let owner = owner(server().await.addr()).await;
    let rights = [Acl::new(Permission::READ | Permission::ADMIN, AuthId::anyone())];
    owner.set_acl(&path, &rights, None).await.unwrap();
    put_value(&ours, &at, b"again").await;
    fails(
        ours.write_cell(&beside, &write).await,
        ErrorKind::Forbidden,
        "the login may not create the directory",
    );
    owner.set_acl(&path, &Acls::anyone_all(), None).await.unwrap();
}
