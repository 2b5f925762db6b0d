//! COUNTER-, IDS- and LATCH-: numbers in cells.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_core::ErrorKind;
use latchwork_core::backend::clients_address;
use latchwork_core::recipes::{CountDownLatch, Counter};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::cell::value;
use super::process::processes;
use crate::actions::{Waiter, entries, without_reply};
use crate::bounds::{CONNECT, LONG_TTL, NOISE, PATIENCE, QUIET_TTL};
use crate::case::cases;
use crate::child::{Child, Counting};
use crate::context::Context;
use crate::errors::{fails_for, refuses};
use crate::testbed::{Armed, Client, Fault};
use crate::waits::{after_polls, soon, until};

const PROCESSES: usize = 4;
/// A server's script may contain `sum`.
const BY_PROCESSES: &str = "addedbyprocesses";

fn counter(client: &Client, key: &str) -> Counter {
    client.coordinator.counter(key).expect("a good key")
}

fn latch(client: &Client, key: &str, count: u32) -> CountDownLatch {
    client.coordinator.count_down_latch(key, count).expect("a good key and count")
}

async fn get(counter: &Counter) -> i64 {
    soon("get", counter.get()).await.expect("read")
}

async fn add_all(clients: &[Client], adds: usize, lost: usize) {
    let adding = clients.iter().map(|client| async move {
        let counter = counter(client, "sum");
        for number in 1..=adds {
            let added = match number % lost {
                0 => without_reply(client, "sum", counter.add(1)).await,
                _ => counter.add(1).await,
            };
            added.expect("the change was applied, or its outcome found out");
        }
    });
    join_all(adding).await;
}

/// The reply may also be lost with its connection.
fn is_lost(armed: &mut dyn Armed) -> bool {
    tokio::task::unconstrained(armed.caught()).now_or_never().is_some()
}

/// Loses the first reply, and about each `lost`-th after it.
async fn add_by_processes(context: &Context, adds: u64, lost: u64) {
    if processes(context, LONG_TTL).is_none() {
        return;
    }
    let adding = (0..PROCESSES).map(|_| async {
        let way = context.fixture.process_link().await.expect("a way");
        let (mut config, link) = way.expect("a fixture with processes must return a process link");
        // Each add gets an answer from a slow server.
        (config.ttl, config.request_timeout) = (QUIET_TTL, CONNECT);
        let mut armed = link.drop_reply(BY_PROCESSES);
        let mut process =
            Child::start(&config, &Counting::Adds { key: BY_PROCESSES.to_owned(), times: adds });
        let (mut done, mut losses) = (0, 0);
        while done < adds {
            let _sum = process.next().await;
            done += 1;
            if done % lost == 0 && is_lost(&mut *armed) {
                losses += 1;
                armed = link.drop_reply(BY_PROCESSES);
            }
        }
        let more = process.ends(PATIENCE).await;
        assert!(more.is_empty(), "an add after the end: {more:?}");
        losses += u64::from(is_lost(&mut *armed));
        assert!(losses > 0, "no reply was lost");
        losses
    });
    let losses: u64 = join_all(adding).await.into_iter().sum();
    let sum = context.client().await.coordinator.counter(BY_PROCESSES).expect("a good key");
    assert_eq!(get(&sum).await, i64::try_from(PROCESSES as u64 * adds).expect("fits"));
    eprintln!(
        "{}: {PROCESSES} processes added {adds} times, {losses} replies were lost",
        context.testbed.name()
    );
    sum.delete().await.expect("deleted");
}

async fn take_ids_and_die(context: &Context, deaths: usize) {
    // A killed process is registered until its lease ends.
    let Some(config) = processes(context, QUIET_TTL) else { return };
    let granted = context.client_with(&config).await.ttl();
    let seed = context.seed();
    let living = (0..PROCESSES).map(|number| {
        let mut dice = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        let config = &config;
        async move {
            let mut said = Vec::new();
            for death in 0..deaths {
                let label = format!("{number} dies, {death}");
                let mut config = config.clone();
                config.label = Some(label.clone());
                let mut process = Child::start(&config, &Counting::Ids { key: "ids".to_owned(), block: 7 });
                for _ in 0..dice.random_range(1..40) {
                    said.push(process.next().await);
                }
                said.extend(process.kill().await);
                context.end_lease_of(&label, granted).await;
            }
            said
        }
    });
    let ids = join_all(living).await.concat();
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "an id came twice");
    eprintln!("{}: {} ids, {} processes killed", context.testbed.name(), ids.len(), deaths * PROCESSES);
    let client = context.mortal().await;
    let clients = clients_address(&context.fixture.config().namespace).expect("a good namespace");
    until("killed processes are not listed any more", || async {
        entries(&client, &clients).await.len() == 1
    })
    .await;
    let ids = client.coordinator.id_generator("ids").expect("a good key");
    ids.delete().await.expect("deleted");
}

async fn adds_are_applied_once(context: &Context, adds: usize, lost: usize) {
    let clients: [_; 4] = context.clients().await;
    add_all(&clients, adds, lost).await;
    let sum = counter(&clients[0], "sum");
    assert_eq!(get(&sum).await, i64::try_from(clients.len() * adds).expect("fits"));
    sum.delete().await.expect("deleted");
}

async fn add(counter: &Counter, number: i64) -> i64 {
    soon("add", counter.add(number)).await.expect("added")
}

async fn set(counter: &Counter, from: i64, to: i64) -> bool {
    soon("set", counter.compare_and_set(from, to)).await.expect("answered")
}

async fn count_down(latch: &CountDownLatch) -> u32 {
    soon("count_down", latch.count_down()).await.expect("counted")
}

fn opens(latch: &CountDownLatch) -> Waiter<()> {
    let latch = latch.clone();
    Waiter::of(async move { latch.wait().await })
}

cases! {
    "COUNTER-ADD" =>
    /// add, get, compare-and-set and delete work; bad arguments are refused
    async fn counter_add_get_set_and_delete_change_the_value(context) {
        let [one, two] = context.clients().await;
        let (mine, theirs) = (counter(&one, "a"), counter(&two, "a"));
        assert_eq!(get(&mine).await, 0);
        assert_eq!(add(&mine, 5).await, 5);
        assert_eq!(add(&theirs, -7).await, -2);
        assert_eq!(add(&mine, 0).await, -2, "beside another's");
        assert!(set(&mine, -2, i64::MAX).await);
        assert!(!set(&theirs, -2, 3).await);
        assert_eq!(refuses(soon("add", theirs.add(1)).await, "number").operation(), Some("add"));
        assert_eq!(get(&theirs).await, i64::MAX);
        assert!(soon("delete", mine.delete()).await.expect("deleted"));
        assert!(!soon("delete", theirs.delete()).await.expect("answered"));
        assert_eq!((get(&mine).await, get(&theirs).await), (0, 0));
        assert_eq!(add(&theirs, 1).await, 1, "it begins again");
        assert!(soon("delete", mine.delete()).await.expect("deleted"));
    }

    "COUNTER-ADD" =>
    /// adds of several clients at once, with lost replies, are each applied once: the sum is exact
    async fn counter_add_is_applied_once(context) {
        adds_are_applied_once(context, 25, 10).await;
    }

    "COUNTER-ADD" =>
    /// adds that are dropped at any await point are applied once or not at all, and do not block other adds
    async fn counter_add_dropped_is_applied_once_at_most(context) {
        let [one, two] = context.clients().await;
        let (mine, theirs) = (counter(&one, "a"), counter(&two, "a"));
        one.link.delay(Duration::from_millis(4));
        let (mut done, mut dropped) = (0, 0);
        for polls in (1..8).cycle().take(40) {
            // Many adds must find another version than they expect.
            done += soon("add", theirs.add(1)).await.map(|_| 1).expect("added");
            match after_polls(polls, mine.add(1)).await {
                Some(added) => done += added.map(|_| 1).expect("added"),
                None => dropped += 1,
            }
        }
        one.link.heal();
        let sum = add(&mine, 1).await;
        done += 1;
        assert!((done..=done + dropped).contains(&sum), "the sum is {sum}: expected {done}, plus at most {dropped} dropped adds");
        assert!(dropped > 0, "nothing was dropped");
        mine.delete().await.expect("deleted");
    }

    "COUNTER-ADD" =>
    /// the server answers a change that changes nothing, not the state that the handle saw last
    async fn counter_add_answers_nothing_from_memory(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (counter(&one, "c"), counter(&two, "c"));
        assert_eq!((add(&here, 1).await, get(&there).await), (1, 1));
        assert_eq!(add(&there, 1).await, 2);
        assert!(set(&here, 2, i64::MAX).await, "it is 2");
        assert!(set(&there, i64::MAX, 5).await, "another client has changed the value");
        assert_eq!(add(&here, 1).await, 6);
        let (here, there) = (latch(&one, "l", 2), latch(&two, "l", 2));
        for left in [1, 0, 0] {
            assert_eq!(count_down(&here).await, left);
        }
        assert!(soon("delete", there.delete()).await.expect("deleted"));
        assert_eq!(count_down(&here).await, 1, "the latch has another initial count");
        assert!(soon("delete", there.delete()).await.expect("deleted"));
        assert!(soon("delete", counter(&two, "c").delete()).await.expect("deleted"));
    }

    "COUNTER-ADD" long =>
    /// four clients add 10,000 times each, every hundredth reply is lost: the sum is exact
    async fn soak_forty_thousand_adds(context) {
        adds_are_applied_once(context, 10_000, 100).await;
    }

    "COUNTER-ADD" =>
    /// adds of four processes, with lost replies, are each applied once: the sum is exact
    async fn counter_add_of_processes_is_applied_once(context) {
        add_by_processes(context, 60, 20).await;
    }

    "COUNTER-ADD" alone long =>
    /// four processes add 10,000 times each, every hundredth reply is lost: the sum is exact
    async fn soak_forty_thousand_adds_of_processes(context) {
        add_by_processes(context, 10_000, 100).await;
    }

    "IDS-UNIQUE" =>
    /// no id comes twice from four processes that are killed repeatedly
    async fn ids_unique_across_killed_processes(context) {
        take_ids_and_die(context, 3).await;
    }

    "IDS-UNIQUE" alone long =>
    /// no id comes twice from four processes that are killed a hundred times
    async fn soak_ids_of_killed_processes(context) {
        take_ids_and_die(context, 25).await;
    }

    "IDS-UNIQUE" =>
    /// no id comes twice, from any handle, with blocks of any size, lost replies and dropped calls; the ids of a handle
    /// rise
    async fn ids_unique_across_clients_and_faults(context) {
        let clients = context.clients::<3>().await;
        let generating = clients.iter().enumerate().flat_map(|(number, client)| {
            [1, 7].map(|block| async move {
                let ids = client.coordinator.id_generator("sum").expect("a key").with_block(block).expect("a size");
                let mut given = Vec::new();
                for round in 0..30 {
                    if round == 10 && block == 1 {
                        given.push(without_reply(client, "sum", ids.next_id()).await.expect("found out"));
                        continue;
                    }
                    if round % 5 == number {
                        given.extend(after_polls(1, ids.next_id()).await.map(|id| id.expect("reserved")));
                    }
                    given.push(ids.next_id().await.expect("reserved"));
                }
                assert!(given.is_sorted_by(|one, next| one < next), "{given:?}");
                given
            })
        });
        let given = soon("all ids", join_all(generating)).await.concat();
        let unique: BTreeSet<_> = given.iter().collect();
        assert_eq!((unique.len(), unique.contains(&0)), (given.len(), false), "{given:?}");
        let ids = clients[0].coordinator.id_generator("sum").expect("a key");
        for size in [0, 1_000_001] {
            assert_eq!(refuses(ids.clone().with_block(size), "size").key(), Some("sum"));
        }
        assert!(ids.delete().await.expect("deleted"));
        assert_eq!(soon("next_id", ids.next_id()).await.expect("reserved"), 1, "it begins again");
        ids.delete().await.expect("deleted");
    }

    "LATCH-OPEN" =>
    /// a latch opens for all waiters when its count is zero, and stays open; another initial count is a conflict
    async fn latch_open_once_it_was_counted_down(context) {
        let [one, two] = context.clients().await;
        let (mine, theirs) = (latch(&one, "a", 3), latch(&two, "a", 3));
        assert_eq!(soon("count", mine.count()).await.expect("read"), 3);
        let waiting = [&mine, &theirs, &theirs].map(opens);
        assert_eq!(count_down(&mine).await, 2);
        assert_eq!(count_down(&theirs).await, 1);
        assert!(tokio::time::timeout(2 * NOISE, theirs.wait()).await.is_err(), "one is missing");
        assert_eq!(soon("count", theirs.count()).await.expect("read"), 1);
        assert!(waiting.iter().all(|wait| !wait.is_finished()), "open too early");
        assert_eq!(count_down(&mine).await, 0);
        for wait in waiting {
            wait.outcome().await.expect("open");
        }
        assert_eq!(count_down(&theirs).await, 0);
        soon("it stays open", theirs.wait()).await.expect("open");
        fails_for(soon("count", latch(&two, "a", 2).count_down()).await, ErrorKind::Conflict, "a", "another count");
        refuses(one.coordinator.count_down_latch("a", 0), "count");
        assert!(soon("delete", mine.delete()).await.expect("deleted"));
        assert_eq!(soon("count", theirs.count()).await.expect("read"), 3, "it begins again");
    }

    "LATCH-OPEN" =>
    /// a count-down whose reply is lost counts once, and a waiter that was cut off notices that the latch is open
    async fn latch_open_survives_lost_replies_and_cuts(context) {
        let (one, two) = (context.client().await, context.mortal().await);
        let (mine, theirs) = (latch(&one, "sum", 3), latch(&two, "sum", 3));
        assert_eq!(count_down(&mine).await, 2);
        // The next request is a write, based on this answer.
        assert_eq!(without_reply(&one, "sum", mine.count_down()).await.expect("found out"), 1);
        let waiting = opens(&theirs);
        drop(value(&two, "other").watch().await.expect("a second watch: the first is active"));
        assert!(context.can(Fault::Cut));
        two.link.cut();
        assert_eq!(count_down(&mine).await, 0);
        tokio::time::sleep(two.ttl() / 2).await;
        two.link.heal();
        waiting.outcome().await.expect("open");
        mine.delete().await.expect("deleted");
    }
}
