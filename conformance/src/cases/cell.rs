//! CELL-: versioned values.

use std::sync::Arc;

use latchwork_core::contracts::{Cell, CellLife, CellWrite, CellWritten, Expected, Joined, Version};
use latchwork_core::recipes::{Compared, MultiLock, SharedValue, Watch};
use latchwork_core::{Address, ErrorKind, Kind, LostReason, Result};

use crate::actions::{acquire, mutex};
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::testbed::{Client, Fault};
use crate::waits::soon;

pub(super) fn value(client: &Client, key: &str) -> SharedValue {
    client.coordinator.shared_value(key).expect("a good key")
}

pub(super) async fn read(value: &SharedValue) -> Option<Cell> {
    soon("read", value.read()).await.expect("read")
}

/// The value as text; `None` if there is none.
async fn text(value: &SharedValue) -> Option<String> {
    read(value).await.map(|cell| String::from_utf8(cell.value.to_vec()).expect("text"))
}

pub(super) async fn write(value: &SharedValue, text: &str) -> Version {
    soon("write", value.write(text)).await.expect("written")
}

pub(super) async fn delete(value: &SharedValue) -> bool {
    soon("delete", value.delete()).await.expect("deleted")
}

async fn set(value: &SharedValue, expected: Expected, text: &str) -> Compared {
    soon("compare_and_set", value.compare_and_set(expected, text)).await.expect("answered")
}

/// A write below the recipes.
async fn write_below(client: &Client, cell: &Address, expected: Expected, text: Option<&str>) -> CellWritten {
    let write = CellWrite { expected, value: text.map(|text| text.as_bytes().into()), life: CellLife::Stays };
    soon("write", client.coordinator.backend().write_cell(cell, &write)).await.expect("answered")
}

/// Watches until it shows this text, and answers the versions that it showed on the way.
pub(super) async fn until_it_shows(watch: &mut Watch<Option<Cell>>, text: &str) -> Vec<Version> {
    let mut versions = Vec::new();
    loop {
        let Some(cell) = soon("news", watch.changed()).await.expect("watched") else { continue };
        versions.push(cell.version);
        if &*cell.value == text.as_bytes() {
            return versions;
        }
    }
}

/// A holder's node below the recipes.
async fn held_node(
    context: &Context,
    client: &Client,
    key: &str,
) -> Arc<dyn latchwork_core::contracts::Node> {
    match context.join_mutex(client, key).await {
        Joined::Admitted(node) => node,
        other => panic!("the queue is free: {other:?}"),
    }
}

pub(super) fn rise(versions: &[Version]) -> bool {
    versions.windows(2).all(|pair| pair[0] < pair[1])
}

cases! {
    "CELL-CAS" =>
    /// a write under "absent" or under a version is made only if that is so, and a refused one
    /// answers what is there
    async fn cell_cas_writes_only_over_what_is_expected(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (mine, theirs) = (value(&one, "a"), value(&two, "a"));
        assert_eq!(read(&mine).await, None);
        assert!(!delete(&mine).await, "there was nothing");
        let Compared::Stored(first) = set(&mine, Expected::Absent, "first").await else { panic!("it was absent") };
        let here = Cell { version: first, value: b"first"[..].into() };
        assert_eq!(read(&theirs).await, Some(here.clone()));
        assert_eq!(set(&theirs, Expected::Absent, "no").await, Compared::Differs(Some(here)));
        let Compared::Stored(second) = set(&theirs, Expected::Version(first), "second").await else {
            panic!("it was the first")
        };
        assert!(first < second, "{first} {second}");
        let refused = set(&mine, Expected::Version(first), "no").await;
        assert_eq!(refused, Compared::Differs(Some(Cell { version: second, value: b"second"[..].into() })));
        let third = write(&mine, "").await;
        assert!(second < third, "{second} {third}");
        assert_eq!(text(&theirs).await.as_deref(), Some(""), "an empty value is a value");
        assert!(delete(&theirs).await);
        assert_eq!(read(&mine).await, None);
        assert_eq!(set(&mine, Expected::Version(third), "no").await, Compared::Differs(None));
    }

    "CELL-CAS" =>
    /// a version never comes again, also when the cell is deleted and made anew: what expects the
    /// old one is refused, a deletion too
    async fn cell_cas_no_version_comes_again(context) {
        let client = context.client().await;
        let (it, beside) = (value(&client, "a"), value(&client, "b"));
        let mut versions = Vec::new();
        for round in 0..5 {
            versions.push(write(&it, "same").await);
            if round % 2 == 0 {
                versions.push(write(&it, "same").await);
                // What happens to another cell of the kind is nothing to this one.
                write(&beside, "other").await;
                delete(&beside).await;
            }
            assert!(delete(&it).await);
        }
        let last = write(&it, "last").await;
        versions.push(last);
        assert!(rise(&versions), "{versions:?}");
        for old in &versions[..versions.len() - 1] {
            assert!(matches!(set(&it, Expected::Version(*old), "no").await, Compared::Differs(Some(_))), "{old:?}");
            let deleted = write_below(&client, it.address(), Expected::Version(*old), None).await;
            assert!(matches!(deleted, CellWritten::Refused(Some(_))), "{old:?}: {deleted:?}");
        }
        write(&beside, "another").await;
        let deleted = write_below(&client, it.address(), Expected::Version(last), None).await;
        assert_eq!(deleted, CellWritten::Deleted { was_there: true });
        delete(&beside).await;
    }

    "CELL-CAS" =>
    /// of clients that set one version at once, one succeeds each time
    async fn cell_cas_of_many_at_once_is_made_by_one(context) {
        const ROUNDS: usize = 25;
        let clients = [context.client().await, context.client().await, context.client().await, context.client().await];
        let adding = clients.iter().map(|client| async {
            let it = value(client, "a");
            let mut seen = read(&it).await;
            let mut made = 0;
            while made < ROUNDS {
                let now: usize = seen.as_ref().map_or(0, |cell| {
                    std::str::from_utf8(&cell.value).expect("text").parse().expect("a number")
                });
                let expected = seen.as_ref().map_or(Expected::Absent, |cell| Expected::Version(cell.version));
                seen = match set(&it, expected, &(now + 1).to_string()).await {
                    Compared::Stored(version) => {
                        made += 1;
                        Some(Cell { version, value: (now + 1).to_string().as_bytes().into() })
                    }
                    Compared::Differs(cell) => cell,
                };
            }
        });
        futures_util::future::join_all(adding).await;
        let it = value(&clients[0], "a");
        assert_eq!(text(&it).await, Some((ROUNDS * clients.len()).to_string()));
        delete(&it).await;
    }

    "CELL-HELD" =>
    /// a write under a hold is made while it stands, and never once it was released or removed
    async fn cell_held_is_written_only_while_the_hold_stands(context) {
        let (one, two) = (context.client().await, context.client().await);
        let it = value(&one, "a");
        let guard = soon("acquire", one.coordinator.mutex("a").expect("a good key").acquire()).await.expect("acquired");
        soon("write_while", it.write_while(&guard, "held")).await.expect("it is held");
        assert_eq!(text(&value(&two, "a")).await.as_deref(), Some("held"));
        guard.release().await.expect("released");
        let error = soon("write_while", it.write_while(&guard, "no")).await.expect_err("released");
        assert_eq!((error.kind(), error.key()), (ErrorKind::NotHeld, Some("a")), "{error}");
        let node = held_node(context, &one, "a").await;
        let write = |expected, text: &str| CellWrite { expected, value: Some(text.as_bytes().into()), life: CellLife::Stays };
        let cell = it.address();
        let kept = soon("write", node.write_cell(cell, &write(Expected::Absent, "no"))).await.expect("answered");
        assert!(matches!(kept, CellWritten::Refused(Some(_))), "{kept:?}");
        let CellWritten::Written(version) =
            soon("write", node.write_cell(cell, &write(Expected::Any, "again"))).await.expect("it stands")
        else {
            panic!("it stands")
        };
        assert!(context.can(Fault::Remove));
        context.fixture.remove(&context.queue("a"), node.state().sequence()).await.expect("removed");
        for expected in [Expected::Any, Expected::Version(version)] {
            let error = soon("write", node.write_cell(cell, &write(expected, "no"))).await.expect_err("removed");
            assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
        }
        assert_eq!(text(&it).await.as_deref(), Some("again"));
        delete(&it).await;
    }

    "CELL-HELD" =>
    /// a write under a hold that comes late, when another holds, is not made
    async fn cell_held_is_not_written_late_beside_the_next_holder(context) {
        // No renewal names its node while the write is to be caught.
        let (one, two) = (context.client_with(&context.config(QUIET_TTL)).await, context.client().await);
        let cell = context.queue_of(Kind::Value, "fenced");
        let node = held_node(context, &one, "fenced").await;
        let mut late = one.link.park("fenced");
        let write = CellWrite { expected: Expected::Any, value: Some(b"late"[..].into()), life: CellLife::Stays };
        let (answer, caught) = tokio::join!(soon("write", node.write_cell(&cell, &write)), soon("catch", late.caught()));
        caught.expect("caught");
        let error = answer.expect_err("its connection was lost");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        context.fixture.remove(&context.queue("fenced"), node.state().sequence()).await.expect("removed");
        let next = acquire(&mutex(&two, "fenced")).await;
        let it = value(&two, "fenced");
        write_below(&two, &cell, Expected::Any, Some("next")).await;
        soon("deliver", late.deliver()).await;
        assert_eq!(text(&it).await.as_deref(), Some("next"));
        next.release().await.expect("released");
        delete(&it).await;
    }

    "CELL-HELD" =>
    /// a write under a hold of another key is made where that is promised, and else refused as
    /// unsupported
    async fn cell_held_by_another_key_is_written_or_refused(context) {
        let client = context.client().await;
        // Several: in a cluster some of them may happen to be in one slot with the value.
        let (it, promised) = (value(&client, "a"), client.coordinator.capabilities().held_writes);
        let mut refused = 0;
        for key in ["m", "n", "o"] {
            let mutex = client.coordinator.mutex(key).expect("a good key");
            let guard = soon("acquire", mutex.acquire()).await.expect("acquired");
            match soon("write_while", it.write_while(&guard, "held")).await {
                Ok(_) => {}
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Unsupported { capability: "held_writes" }), "{error}");
                    refused += 1;
                }
            }
            guard.release().await.expect("released");
        }
        assert_eq!(promised, refused == 0, "{refused} of 3 are refused");
        assert_eq!(text(&it).await.is_some(), promised);
        if promised {
            delete(&it).await;
        }
    }

    "CELL-STAY" =>
    /// a cell outlives the client that wrote it, however that ends
    async fn cell_stay_outlives_its_client(context) {
        let (closes, dies, stays) = (context.mortal().await, context.doomed().await, context.client().await);
        write(&value(&closes, "a"), "of one that closed").await;
        write(&value(&dies, "b"), "of one that died").await;
        closes.coordinator.close().await.expect("closed");
        latchwork_core::crash(&dies.coordinator).await;
        // What went with it is gone by then.
        context.end_lease(&dies).await;
        for (key, expected) in [("a", "of one that closed"), ("b", "of one that died")] {
            let it = value(&stays, key);
            assert_eq!(text(&it).await.as_deref(), Some(expected));
            delete(&it).await;
        }
    }

    "CELL-UNKNOWN" =>
    /// a write whose reply is lost is told as unknown or found out, and made once
    async fn cell_unknown_is_told_and_made_once(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (mine, theirs) = (value(&one, "unknown"), value(&two, "unknown"));
        let before = write(&mine, "before").await;
        for (expected, text_of_it) in [(Expected::Any, "any"), (Expected::Version(before), "set")] {
            let was = match expected {
                Expected::Version(_) => Expected::Version(write(&mine, "before").await),
                other => other,
            };
            let mut lost = one.link.drop_reply("unknown");
            let asked = CellWrite { expected: was, value: Some(text_of_it.as_bytes().into()), life: CellLife::Stays };
            let backend = one.coordinator.backend();
            let newer = async {
                soon("drop", lost.caught()).await.expect("dropped");
                let made = read(&theirs).await.expect("it was made");
                assert_eq!(&*made.value, text_of_it.as_bytes());
                (made.version, write(&theirs, "newer").await)
            };
            let (answer, (made, newer)) =
                tokio::join!(soon("write", backend.write_cell(mine.address(), &asked)), newer);
            match answer {
                Ok(written) => assert_eq!(written, CellWritten::Written(made), "found out wrongly"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
            }
            assert_eq!(read(&theirs).await.map(|cell| cell.version), Some(newer), "made again over a newer one");
        }
        delete(&theirs).await;
    }

    "CELL-UNKNOWN" =>
    /// a write that comes late under a version that is gone is not made
    async fn cell_unknown_late_write_meets_another_version(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (mine, theirs) = (value(&one, "late"), value(&two, "late"));
        let before = write(&mine, "before").await;
        let mut late = one.link.park("late");
        let (answer, caught) = tokio::join!(
            soon("write", mine.compare_and_set(Expected::Version(before), "late")),
            soon("catch", late.caught())
        );
        caught.expect("caught");
        let error = answer.expect_err("its connection was lost");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::OutcomeUnknown, Some("compare_and_set")), "{error}");
        assert!(matches!(set(&theirs, Expected::Version(before), "after").await, Compared::Stored(_)));
        soon("deliver", late.deliver()).await;
        assert_eq!(text(&theirs).await.as_deref(), Some("after"));
        delete(&theirs).await;
    }

    "KEY-KINDS" =>
    /// values, counters, ids and latches of one key are four things, and none is a lock; so are
    /// values of keys that look alike
    async fn key_kinds_of_cells_never_meet(context) {
        let client = context.client().await;
        let held = acquire(&mutex(&client, "a")).await;
        let coordinator = &client.coordinator;
        let (counter, ids) = (coordinator.counter("a").expect("a key"), coordinator.id_generator("a").expect("a key"));
        let latch = coordinator.count_down_latch("a", 7).expect("a key");
        let keys = ["a", "A", "a/b", "a%2Fb", "a%b", "..", "\u{1f512}", " "];
        for key in keys {
            write(&value(&client, key), key).await;
        }
        assert_eq!(soon("add", counter.add(2)).await.expect("added"), 2);
        assert_eq!(soon("next_id", ids.next_id()).await.expect("reserved"), 1);
        assert_eq!(soon("count_down", latch.count_down()).await.expect("counted"), 6);
        for key in keys {
            let it = value(&client, key);
            assert_eq!(text(&it).await.as_deref(), Some(key));
            assert!(delete(&it).await);
        }
        for deleted in [counter.delete().await, ids.delete().await, latch.delete().await] {
            assert!(deleted.expect("deleted"));
        }
        held.release().await.expect("released");
    }

    "KEY-EXACT" =>
    /// a cell at an exact address is shared by clients of all namespaces, where the backend has
    /// such addresses
    async fn key_exact_cells_are_shared_by_namespaces(context) {
        let (one, name) = (context.client().await, context.fixture.exact_name());
        let mut config = context.fixture.config();
        config.namespace.push_str("-2");
        let two = context.client_with(&config).await;
        let of = |client: &Client| client.coordinator.shared_value(Address::exact(name.as_str()));
        if !one.coordinator.capabilities().exact_addresses {
            assert!(of(&one).is_err());
            context.leave_out("no exact addresses");
            return;
        }
        let (mine, theirs) = (of(&one).expect("a good name"), of(&two).expect("a good name"));
        let mut watch = soon("watch", theirs.watch()).await.expect("watched");
        write(&mine, "shared").await;
        until_it_shows(&mut watch, "shared").await;
        assert!(delete(&theirs).await);
        assert_eq!(read(&mine).await, None);
    }

    "VALUE-ARGUMENTS" =>
    /// what cannot be a value, and a hold that cannot guard it, are refused by name, and nothing is
    /// written
    async fn value_arguments_are_refused_by_name(context) {
        let (one, two) = (context.client().await, context.client().await);
        let it = value(&one, "a");
        let longest = vec![0xff; 4096];
        soon("write", it.write(&longest)).await.expect("4,096 bytes are allowed");
        assert_eq!(read(&it).await.expect("written").value.to_vec(), longest);
        let own = soon("acquire", one.coordinator.mutex("m").expect("a key").acquire()).await.expect("acquired");
        let foreign = soon("acquire", two.coordinator.mutex("n").expect("a key").acquire()).await.expect("acquired");
        let both = ["o", "p"].map(|key| one.coordinator.mutex(key).expect("a key"));
        let both = soon("acquire", MultiLock::new(both).expect("two keys").acquire()).await.expect("acquired");
        let named = |error: Result<Version>| error.expect_err("refused").argument();
        let long = vec![0; 4097];
        assert_eq!(named(it.write(&long).await), Some("value"));
        assert_eq!(named(it.write_while(&own, &long).await), Some("value"));
        assert_eq!(named(it.write_while(&foreign, "no").await), Some("hold"));
        assert_eq!(named(it.write_while(&both, "no").await), Some("hold"));
        let error = it.compare_and_set(Expected::Any, &long).await.expect_err("too long");
        assert_eq!((error.argument(), error.key()), (Some("value"), Some("a")), "{error}");
        assert_eq!(one.coordinator.shared_value("").expect_err("empty").argument(), Some("key"));
        assert_eq!(read(&it).await.expect("it stays").value.to_vec(), longest);
        for released in [own.release().await, foreign.release().await, both.release().await] {
            released.expect("released");
        }
        delete(&it).await;
    }
}
