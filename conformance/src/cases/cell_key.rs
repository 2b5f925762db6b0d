//! Keys of cells.

use latchwork_core::{Address, Claim, Expected, Key, Kind};

use super::cell::{delete, read, text, until_it_shows, value, write};
use super::key::{of_two_namespaces, with_exact_addresses};
use super::watch::{news, watching};
use crate::actions::{acquire, admitted, leave, mutex, take_a_turn, waiting};
use crate::case::cases;
use crate::cell_actions::{self, ask, deleted, deletion, put, refused, shown, written};
use crate::testbed::Client;
use crate::waits::soon;

const KINDS: [Kind; 4] = [Kind::Value, Kind::Counter, Kind::Ids, Kind::Latch];

cases! {
    "KEY-KINDS" =>
    /// values, counters, ids and latches of one key are separate, also from a lock of that key; so are values of
    /// similar keys
    async fn key_kinds_of_cells_never_meet(context) {
        let client = context.client().await;
        let held = acquire(&mutex(&client, "a")).await;
        let coordinator = &client.coordinator;
        let (counter, ids) = (coordinator.counter("a").expect("a key"), coordinator.id_generator("a").expect("a key"));
        let latch = coordinator.count_down_latch("a", 7).expect("a key");
        let long = "k".repeat(255);
        let keys = [
            "a", "A", "a/b", "a/b/", "/", "a%2Fb", "a%b", "%2E", ".", "..", "\u{1f512}", "ü%", " ", " \r\n", "\0", "\u{10ffff}",
            "{", "{a}", "a}b", "a:cell", "cell", "*", &long,
        ];
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

    "KEY-KINDS" =>
    /// cells of unusual keys are separate in each kind, and so are their watches, also directly at the backend
    async fn key_kinds_of_odd_cells_have_separate_watches(context) {
        let [one, two] = context.clients().await;
        let keys = ["a", "a/b", "/", "a}b", "a:cell", "%2E", "..", "\0", "*"];
        let cells: Vec<_> = keys.iter().flat_map(|key| KINDS.map(|kind| context.queue_of(kind, key))).collect();
        for (number, cell) in cells.iter().enumerate() {
            let mut watch = watching(&two, cell).await;
            cell_actions::write(&one, cell, put(Expected::Absent, number.to_string())).await;
            news(&mut *watch).await;
        }
        for (number, cell) in cells.iter().enumerate() {
            assert_eq!(cell_actions::text(&two, cell).await, Some(number.to_string()), "{cell}");
            assert!(cell_actions::delete(&two, cell).await);
        }
    }

    "KEY-EXACT" =>
    /// clients of all namespaces share a cell at an exact address, if the backend has such addresses
    async fn key_exact_cells_are_shared_by_namespaces(context) {
        let ([one, two], name) = (of_two_namespaces(context).await, context.fixture.exact_name());
        let of = |client: &Client| client.coordinator.shared_value(Key::exact(name.as_str()));
        if !one.coordinator.capabilities().exact_addresses {
            assert!(of(&one).is_err());
            return context.leave_out("the backend has no exact addresses");
        }
        let (mine, theirs) = (of(&one).expect("a good name"), of(&two).expect("a good name"));
        let mut watch = soon("watch", theirs.watch()).await.expect("watched");
        write(&mine, "shared").await;
        until_it_shows(&mut watch, "shared").await;
        assert!(delete(&theirs).await);
        assert_eq!(read(&mine).await, None);
    }

    "KEY-EXACT" =>
    /// cells of each kind at one exact address are separate from each other and from a queue at that address, whose
    /// holder writes them
    async fn key_exact_cells_and_a_queue_are_separate(context) {
        let Some([one, two]) = with_exact_addresses(context).await else {
            return context.leave_out("the backend has no exact addresses");
        };
        let (here, name) = (context.fixture.config().namespace, context.fixture.exact_name());
        let there = format!("{here}-2");
        let at = |namespace: &str, kind| Address::new(namespace, kind, Key::exact(name.as_str())).expect("a good name");
        let mut watch = watching(&two, &at(&there, Kind::Value)).await;
        let mut first = Vec::new();
        for kind in KINDS {
            let made = put(Expected::Absent, kind.as_str());
            first.push(cell_actions::write(&one, &at(&here, kind), made).await);
        }
        news(&mut *watch).await;
        let holder = admitted(&one, &at(&here, Kind::Mutex), Claim::Exclusive).await;
        let waiter = waiting(&two, &at(&there, Kind::Mutex), Claim::Exclusive).await;
        for (kind, first) in KINDS.into_iter().zip(first) {
            let (mine, theirs) = (at(&here, kind), at(&there, kind));
            assert_eq!(cell_actions::text(&two, &theirs).await.as_deref(), Some(kind.as_str()));
            let over = soon("write", holder.write_cell(&theirs, &put(Expected::Version(first), "held"))).await;
            assert!(deleted(ask(&two, &theirs, &deletion(Expected::Version(written(over)))).await));
            let anew = cell_actions::write(&two, &theirs, put(Expected::Any, "anew")).await;
            let stale = refused(ask(&one, &mine, &put(Expected::Version(first), "no")).await);
            assert_eq!(stale, Some(shown(anew, "anew")));
            assert!(cell_actions::delete(&one, &mine).await);
        }
        leave(&holder).await;
        take_a_turn(&waiter).await;
    }
}
