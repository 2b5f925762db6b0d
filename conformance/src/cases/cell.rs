//! CELL-: versioned values.

use std::collections::HashSet;

use futures_util::future::join_all;
use latchwork_core::backend::{CellWritten, MAX_CELL_BYTES, VersionedValue};
use latchwork_core::recipes::{Compared, SharedValue, Watch};
use latchwork_core::{ErrorKind, Expected, Hold, Kind, Result, Version};

use super::multi::mutexes;
use crate::actions::{acquire, close, mutex, release_all};
use crate::case::cases;
use crate::cell_actions::{self, as_text, ask, deleted, deletion, put, refused, shown, written};
use crate::errors::{fails, refuses};
use crate::testbed::Client;
use crate::waits::soon;

pub(super) fn value(client: &Client, key: &str) -> SharedValue {
    client.coordinator.shared_value(key).expect("a good key")
}

pub(super) async fn read(value: &SharedValue) -> Option<VersionedValue> {
    soon("read", value.read()).await.expect("read")
}

pub(super) async fn text(value: &SharedValue) -> Option<String> {
    read(value).await.map(as_text)
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

pub(super) async fn until_it_shows(watch: &mut Watch<Option<VersionedValue>>, text: &str) -> Vec<Version> {
    let mut versions = Vec::new();
    loop {
        let Some(cell) = soon("news", watch.changed()).await.expect("watched") else { continue };
        versions.push(cell.version);
        if &*cell.value == text.as_bytes() {
            return versions;
        }
    }
}

pub(super) fn rise(versions: &[Version]) -> bool {
    versions.windows(2).all(|pair| pair[0] < pair[1])
}

cases! {
    "CELL-CAS" =>
    /// a write with the condition "absent" or a version is made only if the condition holds; a refused write returns
    /// the stored value
    async fn cell_cas_writes_only_if_the_condition_holds(context) {
        let [one, two] = context.clients().await;
        let (mine, theirs) = (value(&one, "a"), value(&two, "a"));
        assert_eq!(read(&mine).await, None);
        assert!(!delete(&mine).await, "there was nothing");
        let Compared::Stored(first) = set(&mine, Expected::Absent, "first").await else { panic!("it was absent") };
        let here = shown(first, "first");
        assert_eq!(read(&theirs).await, Some(here.clone()));
        assert_eq!(set(&theirs, Expected::Absent, "no").await, Compared::Differs(Some(here)));
        let Compared::Stored(second) = set(&theirs, Expected::Version(first), "second").await else {
            panic!("it was the first")
        };
        assert!(first < second, "{first} {second}");
        let refused = set(&mine, Expected::Version(first), "no").await;
        assert_eq!(refused, Compared::Differs(Some(shown(second, "second"))));
        let third = write(&mine, "").await;
        assert!(second < third, "{second} {third}");
        assert_eq!(text(&theirs).await.as_deref(), Some(""), "an empty value is a value");
        assert!(delete(&theirs).await);
        assert_eq!(read(&mine).await, None);
        assert_eq!(set(&mine, Expected::Version(third), "no").await, Compared::Differs(None));
    }

    "CELL-CAS" =>
    /// each condition decides a write and a deletion, without a cell and with any bytes; a refused request changes
    /// nothing and returns the cell
    async fn cell_cas_decides_by_each_condition(context) {
        let (one, two, cell) = (context.client().await, context.client().await, context.queue_of(Kind::Value, "a"));
        let never = Expected::Version(Version::new(1 << 50, 5));
        for write in [put(never, "no"), deletion(never)] {
            assert_eq!(refused(ask(&one, &cell, &write).await), None, "{write:?}");
        }
        for expected in [Expected::Any, Expected::Absent] {
            assert!(!deleted(ask(&one, &cell, &deletion(expected)).await), "{expected:?}");
        }
        let every: Vec<u8> = (0..MAX_CELL_BYTES).map(|at| at as u8).collect();
        let mut last = None;
        for value in [&b""[..], b"\0", b"\r\n$-1\r\n", &every, b"x", b""] {
            let expected = last.map_or(Expected::Absent, Expected::Version);
            let version = cell_actions::write(&one, &cell, put(expected, value)).await;
            let now = shown(version, value);
            for stale in [Some(Expected::Absent), Some(never), last.map(Expected::Version)].into_iter().flatten() {
                for write in [put(stale, "no"), deletion(stale)] {
                    assert_eq!(refused(ask(&two, &cell, &write).await), Some(now.clone()), "{write:?}");
                }
            }
            let read = cell_actions::read(&two, &cell).await;
            assert_eq!(read, Some(now));
            last = read.map(|read| read.version);
        }
        let over = cell_actions::write(&two, &cell, put(Expected::Any, "over it")).await;
        assert!(last < Some(over), "{last:?} {over}");
        let over = Expected::Version(over);
        assert!(deleted(ask(&one, &cell, &deletion(over)).await));
        assert_eq!(refused(ask(&one, &cell, &put(over, "no")).await), None);
        cell_actions::write(&one, &cell, put(Expected::Any, "again")).await;
        assert!(cell_actions::delete(&one, &cell).await);
        assert_eq!(cell_actions::read(&two, &cell).await, None);
    }

    "CELL-CAS" =>
    /// a version is never used again, also after the cell is deleted and created again: a write or deletion that
    /// expects the old version is refused
    async fn cell_cas_no_version_comes_again(context) {
        let [client, other] = context.clients().await;
        let (it, theirs, beside) = (value(&client, "a"), value(&other, "a"), value(&client, "b"));
        let (mut versions, mut learned) = (Vec::new(), Vec::new());
        for round in 0..5 {
            let made = match round % 3 {
                0 => write(&it, "same").await,
                1 => write(&theirs, "same").await,
                _ => cell_actions::write(&other, it.address(), put(Expected::Absent, "same")).await,
            };
            let read = read(&theirs).await.expect("it was made").version;
            assert_eq!(read, made);
            learned.push(read);
            versions.push(made);
            if round % 2 == 0 {
                versions.push(write(&it, "same").await);
                write(&beside, "other").await;
                delete(&beside).await;
            }
            assert!(delete(&it).await);
        }
        let last = write(&it, "last").await;
        versions.push(last);
        assert!(rise(&versions), "{versions:?}");
        for old in versions[..versions.len() - 1].iter().chain(&learned) {
            assert!(matches!(set(&it, Expected::Version(*old), "no").await, Compared::Differs(Some(_))), "{old:?}");
            let deleted = refused(ask(&client, it.address(), &deletion(Expected::Version(*old))).await);
            assert_eq!(deleted.expect("it is there").version, last, "{old:?}");
        }
        write(&beside, "another").await;
        let Compared::Stored(next) = set(&it, Expected::Version(last), "next").await else { panic!("it was the last") };
        assert!(delete(&beside).await);
        write(&value(&other, "c"), "a third").await;
        assert!(deleted(ask(&client, it.address(), &deletion(Expected::Version(next))).await));
        delete(&value(&other, "c")).await;
    }

    "CELL-CAS" =>
    /// if several clients replace one version at once, exactly one succeeds
    async fn cell_cas_of_many_at_once_is_made_by_one(context) {
        const ROUNDS: usize = 25;
        let clients: [_; 4] = context.clients().await;
        for key in ["made-1", "made-2", "made-3"] {
            let (cell, made) = (context.queue_of(Kind::Value, key), put(Expected::Absent, "made"));
            let answers = join_all(clients.iter().map(|client| ask(client, &cell, &made))).await;
            let (won, lost): (Vec<_>, Vec<_>) =
                answers.into_iter().partition(|answer| matches!(answer, Ok(CellWritten::Written(_))));
            let [won] = <[_; 1]>::try_from(won).expect("one makes it").map(written);
            for lost in lost {
                assert_eq!(refused(lost).expect("it is there").version, won);
            }
            cell_actions::delete(&clients[0], &cell).await;
        }
        let adding = clients.iter().enumerate().map(|(number, client)| async move {
            let it = value(client, "a");
            let mut seen = read(&it).await;
            let mut made = 0;
            while made < ROUNDS {
                let expected = seen.as_ref().map_or(Expected::Absent, |cell| Expected::Version(cell.version));
                let now: usize = seen.map_or(0, |cell| as_text(cell).parse().expect("a number"));
                seen = match set(&it, expected, &(now + 1).to_string()).await {
                    Compared::Stored(version) => {
                        made += 1;
                        let beside = value(client, &format!("beside-{number}"));
                        write(&beside, "").await;
                        delete(&beside).await;
                        Some(shown(version, (now + 1).to_string()))
                    }
                    Compared::Differs(cell) => cell,
                };
            }
        });
        join_all(adding).await;
        let it = value(&clients[0], "a");
        assert_eq!(text(&it).await, Some((ROUNDS * clients.len()).to_string()));
        delete(&it).await;
    }

    "CELL-CAS" =>
    /// clients write, delete and create one cell at once: one write makes each version, and at most one replaces it
    async fn cell_cas_each_version_is_used_up_once(context) {
        const TURNS: usize = 60;
        let clients: [_; 4] = context.clients().await;
        let cell = context.queue_of(Kind::Value, "a");
        let racing = clients.iter().enumerate().map(|(number, client)| {
            let cell = &cell;
            async move {
                let (mut made, mut used, mut known) = (Vec::new(), Vec::new(), None);
                for turn in 0..TURNS {
                    let expected = known.map_or(Expected::Absent, Expected::Version);
                    let write = if (turn + number) % 3 == 0 { deletion(expected) } else { put(expected, "x") };
                    match ask(client, cell, &write).await.expect("answered") {
                        CellWritten::Written(version) => {
                            made.push(version);
                            used.extend(known.replace(version));
                        }
                        CellWritten::Deleted { was_there } => {
                            assert_eq!(was_there, known.is_some());
                            used.extend(known.take());
                        }
                        CellWritten::Refused(found) => known = found.map(|found| found.version),
                    }
                }
                (made, used)
            }
        });
        let (mut made, mut used) = (HashSet::new(), HashSet::new());
        for (made_by_one, used_by_one) in join_all(racing).await {
            assert!(rise(&made_by_one), "{made_by_one:?}");
            for version in made_by_one {
                assert!(made.insert(version), "{version} was made by two writes");
            }
            for version in used_by_one {
                assert!(used.insert(version), "{version} was replaced by two writes");
            }
        }
        let left = made.difference(&used).count();
        assert!(used.is_subset(&made) && left <= 1, "{left} of {} are left", made.len());
        cell_actions::delete(&clients[0], &cell).await;
    }

    "CELL-STAY" =>
    /// a cell outlives its writer's client, after a close and after a crash
    async fn cell_stay_outlives_its_client(context) {
        let (closes, dies, stays) = (context.mortal().await, context.doomed().await, context.client().await);
        write(&value(&closes, "a"), "of a client that closed").await;
        write(&value(&dies, "b"), "of one that died").await;
        close(&closes).await;
        context.kill(&dies).await;
        for (key, expected) in [("a", "of a client that closed"), ("b", "of one that died")] {
            let it = value(&stays, key);
            let found = read(&it).await.expect("it stays");
            assert_eq!(*found.value, *expected.as_bytes());
            let over = set(&it, Expected::Version(found.version), "over it").await;
            assert!(matches!(over, Compared::Stored(_)), "{over:?}");
            delete(&it).await;
        }
        for gone in [&closes, &dies] {
            let (backend, cell) = (gone.coordinator.backend(), context.queue_of(Kind::Value, "a"));
            fails(soon("read", backend.read_cell(&cell)).await, ErrorKind::Closed, "it is closed");
            let written = soon("write", backend.write_cell(&cell, &put(Expected::Any, "no"))).await;
            fails(written, ErrorKind::Closed, "it is closed");
        }
    }

    "VALUE-ARGUMENTS" =>
    /// a bad value, and a hold that cannot guard it, are refused by name, and nothing is written
    async fn value_arguments_are_refused_by_name(context) {
        let [one, two] = context.clients().await;
        let it = value(&one, "a");
        let longest = vec![0xff; 4096];
        soon("write", it.write(&longest)).await.expect("4,096 bytes are allowed");
        assert_eq!(read(&it).await.expect("written").value.to_vec(), longest);
        let (own, foreign) = (acquire(&mutex(&one, "m")).await, acquire(&mutex(&two, "n")).await);
        let both = soon("acquire", mutexes(&one, &["o", "p"]).acquire()).await.expect("acquired");
        let named = |error: Result<Version>| error.expect_err("refused").argument();
        let long = vec![0; 4097];
        assert_eq!(named(it.write(&long).await), Some("value"));
        assert_eq!(named(it.write_while(&own, &long).await), Some("value"));
        assert_eq!(named(it.write_while(&foreign, "no").await), Some("hold"));
        assert_eq!(named(it.write_while(&both, "no").await), Some("hold"));
        assert_eq!(refuses(it.compare_and_set(Expected::Any, &long).await, "value").key(), Some("a"));
        refuses(one.coordinator.shared_value(""), "key");
        assert_eq!(read(&it).await.expect("it stays").value.to_vec(), longest);
        release_all([Hold::from(own), foreign.into(), both.into()]).await;
        delete(&it).await;
    }
}
