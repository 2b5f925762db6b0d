//! The queue on a real server: order, tokens, peers' nodes, permits.

mod common;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use common::{
    address, admitted, backend, config, coordinator, holds, join, one_proxied, put, server, soon,
    still_waits, stranger, waiting,
};
use latchwork_core::contracts::{AskedLimit, Backend, Close, Join, Joined, Node, Page, Patience};
use latchwork_core::decide::Claim::{self, Exclusive, Permits, Shared};
use latchwork_core::{Address, ErrorKind, Kind, LostReason};
use zookeeper_client::{Acls, CreateMode};

const ALL: Page = Page { after: 0, most: 100 };
/// The requests that list, that read, that create, and that do several things.
const LIST: i32 = 8;
const READ: i32 = 4;
const CREATE: i32 = 15;
const MULTI: i32 = 14;

#[tokio::test]
async fn tokens_rise_though_the_counter_begins_anew_when_the_directory_was_removed() {
    let addr = server().await.addr();
    let config = config(addr);
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex("a").unwrap();
    let stranger = stranger(addr).await;
    let mut last = None;
    for _ in 0..3 {
        let guard = soon(mutex.acquire()).await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        let queue = format!("/{}/mutex/a", config.namespace);
        let names = stranger.list_children(&queue).await.unwrap();
        assert!(names.len() == 1 && names[0].ends_with("-lock-0000000000"), "{names:?}");
        let _ = guard.release().await.unwrap();
        // What the server does with a container that was empty for a minute.
        stranger.delete(&queue, None).await.unwrap();
    }
    coordinator.close().await.unwrap();
}

/// One that holds, and so many that wait behind it.
async fn line_up(client: &Arc<dyn Backend>, queue: &Address, behind: usize) -> Vec<Arc<dyn Node>> {
    let mut line = vec![admitted(client.join(&join(queue, Exclusive)).await)];
    for _ in 0..behind {
        line.push(waiting(client.join(&join(queue, Exclusive)).await));
    }
    line
}

/// All have their turns.
async fn all_hold_and_release(line: Vec<Arc<dyn Node>>) {
    for node in line {
        soon(node.admitted()).await.unwrap();
        node.leave().await.unwrap();
    }
}

/// The events of one connection come in order, so that the release before it, or the end of the last before it, leaves the own node
/// there; those that a new connection begins with may not.
#[tokio::test]
async fn the_next_in_line_enters_at_once_but_lists_after_a_reconnect() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    for (key, behind, severed) in [("a", 0, false), ("b", 0, true), ("c", 2, false), ("d", 2, true)] {
        let queue = address(&config, Kind::Mutex, key);
        let ahead = line_up(&other, &queue, behind).await;
        let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
        let mut admission = pin!(waiter.admitted());
        // Behind the watches that it arms.
        assert!(still_waits(&one, &queue, &mut admission).await);
        if severed {
            let back = async {
                proxy.sever();
                while one.list(&queue, ALL).await.is_err() {}
            };
            tokio::select! {
                biased;
                done = &mut admission => panic!("it is not its turn: {done:?}"),
                () = back => {}
            }
        }
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        all_hold_and_release(ahead).await;
        soon(admission).await.unwrap();
        assert_eq!(listed.has_fired(), severed, "{key}");
        waiter.leave().await.unwrap();
    }
}

/// Where several wait a release is told: who stands right behind it enters without a request, whoever else was ahead. Where it cannot be
/// told it lists.
#[tokio::test]
async fn a_release_admits_who_stands_right_behind_it_and_no_other_departure_does() {
    let addr = server().await.addr();
    let config = config(addr);
    let ((proxy, [one, other]), stranger) = (one_proxied(&config).await, stranger(addr).await);
    let told_in = format!("/{}/released", config.namespace);
    // Who had one ahead alone does not tell.
    for (key, gives_up, lists) in
        [("a", false, false), ("b", true, true), ("forbidden", false, true), ("gone", false, true)]
    {
        assert_eq!(stranger.list_children(&told_in).await.unwrap(), [""; 0]);
        match key {
            "forbidden" => {
                stranger.set_acl(&told_in, Acls::anyone_read().as_ref(), None).await.unwrap();
            }
            "gone" => stranger.delete(&told_in, None).await.unwrap(),
            _ => {}
        }
        let queue = address(&config, Kind::Mutex, key);
        let mut ahead = line_up(&other, &queue, 2).await;
        let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
        let mut admission = pin!(waiter.admitted());
        assert!(still_waits(&one, &queue, &mut admission).await);
        let mut listed = proxy.request(|chunk| holds(chunk, LIST));
        if gives_up {
            ahead.pop().unwrap().leave().await.unwrap();
            assert!(still_waits(&one, &queue, &mut admission).await);
            // What that listed does not count.
            listed = proxy.request(|chunk| holds(chunk, LIST));
        }
        all_hold_and_release(ahead).await;
        soon(admission).await.unwrap();
        assert_eq!(listed.has_fired(), lists, "{key}");
        waiter.leave().await.unwrap();
        assert!(other.list(&queue, ALL).await.unwrap().is_empty());
    }
}

/// It hears of its own removal first, on the same connection.
#[tokio::test]
async fn a_release_admits_nobody_whose_own_node_was_removed() {
    let addr = server().await.addr();
    let config = config(addr);
    let ((proxy, [client, other]), stranger) = (one_proxied(&config).await, stranger(addr).await);
    let queue = address(&config, Kind::Mutex, "a");
    let directory = format!("/{}/mutex/a", config.namespace);
    // The last of them had others ahead, so that its release is told.
    let ahead = line_up(&other, &queue, 2).await;
    let waiter = waiting(client.join(&join(&queue, Exclusive)).await);
    let mut admission = pin!(waiter.admitted());
    assert!(still_waits(&client, &queue, &mut admission).await);
    let names = stranger.list_children(&directory).await.unwrap();
    let own = names.iter().max_by_key(|name| &name[name.len() - 10..]).unwrap();
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    stranger.delete(&format!("{directory}/{own}"), None).await.unwrap();
    all_hold_and_release(ahead).await;
    let lost = soon(admission).await.unwrap_err();
    assert_eq!(lost.lost_reason(), Some(LostReason::Revoked));
    assert!(!listed.has_fired(), "it was told");
}

/// It may have been told: asked again, it finds nothing.
#[tokio::test]
async fn a_release_whose_answer_is_lost_is_asked_again() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let ahead = line_up(&other, &queue, 1).await;
    let (told, last) = (
        waiting(one.join(&join(&queue, Exclusive)).await),
        waiting(other.join(&join(&queue, Exclusive)).await),
    );
    let mut admission = pin!(told.admitted());
    assert!(still_waits(&one, &queue, &mut admission).await);
    all_hold_and_release(ahead).await;
    soon(admission).await.unwrap();
    let mut lost = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
    assert_eq!(*told.leave().await.unwrap_err().kind(), ErrorKind::Unknown);
    lost.fired().await.unwrap();
    soon(last.admitted()).await.unwrap();
    while told.leave().await.is_err() {}
    last.leave().await.unwrap();
    assert!(other.list(&queue, ALL).await.unwrap().is_empty());
}

/// Curator asks a holder to release by writing its node's data.
#[tokio::test]
async fn who_is_asked_to_release_has_not_released() {
    let addr = server().await.addr();
    let config = config(addr);
    let (client, other, stranger) = (backend(&config).await, backend(&config).await, stranger(addr).await);
    let exact = format!("/{}-exact", config.namespace);
    for (queue, directory) in [
        (address(&config, Kind::Mutex, "a"), format!("/{}/mutex/a", config.namespace)),
        (address(&config, Kind::Mutex, Address::exact(exact.as_str())), exact.clone()),
    ] {
        let mut ahead = line_up(&other, &queue, 1).await;
        let waiter = waiting(client.join(&join(&queue, Exclusive)).await);
        let mut admission = pin!(waiter.admitted());
        assert!(still_waits(&client, &queue, &mut admission).await);
        for name in stranger.list_children(&directory).await.unwrap() {
            stranger.set_data(&format!("{directory}/{name}"), b"__REVOKE__", None).await.unwrap();
        }
        assert!(still_waits(&client, &queue, &mut admission).await);
        ahead.pop().unwrap().leave().await.unwrap();
        assert!(still_waits(&client, &queue, &mut admission).await);
        all_hold_and_release(ahead).await;
        soon(admission).await.unwrap();
        waiter.leave().await.unwrap();
    }
}

/// Where the same clients take turns a waiter far from the head knows its neighbour by name.
#[tokio::test]
async fn who_waits_behind_the_same_neighbour_again_joins_without_listing_and_lists_when_that_leaves() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    for (key, is_there) in [("a", true), ("b", false)] {
        let queue = address(&config, Kind::Mutex, key);
        let mut ahead = line_up(&other, &queue, 4).await;
        for round in 0..2 {
            let listed = proxy.request(|chunk| holds(chunk, LIST));
            let node = waiting(one.join(&join(&queue, Exclusive)).await);
            assert!(listed.has_fired(), "round {round}");
            assert!(still_waits(&one, &queue, node.admitted()).await);
            node.leave().await.unwrap();
            // The neighbour takes its next turn, under its name.
            ahead.pop().unwrap().leave().await.unwrap();
            ahead.push(waiting(other.join(&join(&queue, Exclusive)).await));
        }
        if !is_there {
            for node in ahead {
                node.leave().await.unwrap();
            }
            for expected in [true, false] {
                let read = proxy.request(|chunk| holds(chunk, READ));
                admitted(one.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
                assert_eq!(read.has_fired(), expected, "whether it looks for who was its neighbour");
            }
            continue;
        }
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        let node = waiting(one.join(&join(&queue, Exclusive)).await);
        assert!(!listed.has_fired());
        let mut admission = pin!(node.admitted());
        assert!(still_waits(&one, &queue, &mut admission).await);
        // It gives up, and was not the only one ahead.
        ahead.pop().unwrap().leave().await.unwrap();
        assert!(still_waits(&one, &queue, &mut admission).await);
        let last = ahead.pop().unwrap();
        for node in ahead {
            node.leave().await.unwrap();
        }
        assert!(still_waits(&one, &queue, &mut admission).await);
        last.leave().await.unwrap();
        soon(admission).await.unwrap();
        node.leave().await.unwrap();
        assert!(other.list(&queue, ALL).await.unwrap().is_empty());
    }
}

/// Who knows its neighbour, and is told of its release, lists at no time.
#[tokio::test]
async fn who_joins_behind_a_known_neighbour_is_admitted_by_its_release() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let mut ahead = line_up(&other, &queue, 4).await;
    for _ in 0..2 {
        // Learned while it waits.
        let node = waiting(one.join(&join(&queue, Exclusive)).await);
        assert!(still_waits(&one, &queue, node.admitted()).await);
        node.leave().await.unwrap();
        // The neighbour takes its next turn, under its name.
        ahead.pop().unwrap().leave().await.unwrap();
        ahead.push(waiting(other.join(&join(&queue, Exclusive)).await));
    }
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    let node = waiting(one.join(&join(&queue, Exclusive)).await);
    assert!(!listed.has_fired());
    let mut admission = pin!(node.admitted());
    assert!(still_waits(&one, &queue, &mut admission).await);
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    all_hold_and_release(ahead).await;
    soon(admission).await.unwrap();
    assert!(!listed.has_fired());
    node.leave().await.unwrap();
    assert!(other.list(&queue, ALL).await.unwrap().is_empty());
}

/// Where as many join between its turns a waiter far from the head guesses its neighbour's number, and watches that in the trip of
/// its create. A wrong guess costs a trip more.
#[tokio::test]
async fn a_neighbour_whose_number_is_guessed_is_watched_in_the_trip_of_the_create() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let mut ahead = line_up(&other, &queue, 4).await;
    let mut join_behind_it = async |others: usize, guess: bool| {
        for _ in 0..others {
            // The neighbour takes its next turn, under its name.
            ahead.pop().unwrap().leave().await.unwrap();
            ahead.push(waiting(other.join(&join(&queue, Exclusive)).await));
        }
        // In one trip: the read is sent before the create's answer is there.
        let mut created = proxy.hold_reply_to(|chunk| holds(chunk, CREATE));
        let mut read = proxy.request(|chunk| holds(chunk, READ));
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        let request = join(&queue, Exclusive);
        let held = async {
            created.fired().await.unwrap();
            if guess {
                soon(read.fired()).await.unwrap();
            }
            assert_eq!(read.has_fired(), guess, "{others} others");
            proxy.resume();
        };
        let (joined, ()) = tokio::join!(one.join(&request), held);
        (listed.has_fired(), waiting(joined))
    };
    for _ in 0..4 {
        let (_, node) = join_behind_it(1, false).await;
        assert!(still_waits(&one, &queue, node.admitted()).await);
        node.leave().await.unwrap();
    }
    for (others, guess) in [(1, true), (3, true), (3, false), (3, true)] {
        let (listed, node) = join_behind_it(others, guess).await;
        assert!(!listed);
        assert!(still_waits(&one, &queue, node.admitted()).await);
        node.leave().await.unwrap();
    }
    let (_, node) = join_behind_it(1, true).await;
    let mut admission = pin!(node.admitted());
    for node in ahead {
        assert!(still_waits(&one, &queue, &mut admission).await);
        node.leave().await.unwrap();
    }
    soon(admission).await.unwrap();
    node.leave().await.unwrap();
}

/// Ids are used again, and counters begin anew when the server has removed an empty directory: so a path may be another's.
#[tokio::test]
async fn a_second_leave_of_a_node_spares_the_next_of_its_path() {
    let addr = server().await.addr();
    let config = config(addr);
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let queue = address(&config, Kind::Mutex, "a");
    let directory = format!("/{}/mutex/a", config.namespace);
    let first = admitted(client.join(&join(&queue, Exclusive)).await);
    let named = stranger.list_children(&directory).await.unwrap();
    first.leave().await.unwrap();
    stranger.delete(&directory, None).await.unwrap();
    let next = admitted(client.join(&join(&queue, Exclusive)).await);
    assert_eq!(stranger.list_children(&directory).await.unwrap(), named, "ids are used again");
    first.leave().await.unwrap();
    assert_eq!(stranger.list_children(&directory).await.unwrap(), named);
    next.leave().await.unwrap();
    assert!(stranger.list_children(&directory).await.unwrap().is_empty());
}

/// Whoever asks again for a join that failed looks for its node by its id, which so must not be another's.
#[tokio::test]
async fn a_join_that_failed_behind_its_write_takes_its_id_with_it() {
    let addr = server().await.addr();
    let config = config(addr);
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let queue = address(&config, Kind::Semaphore, "a");
    let asked = join(&queue, Permits(1));
    let kept = admitted(client.join(&asked).await);
    let other = Join { limit: AskedLimit::Exactly(3), ..join(&queue, Permits(1)) };
    assert_eq!(*client.join(&other).await.unwrap_err().kind(), ErrorKind::Conflict);
    let next = admitted(client.join(&join(&queue, Permits(1))).await);
    let names = stranger.list_children(&format!("/{}/semaphore/a", config.namespace)).await.unwrap();
    assert!(names.len() == 2 && !names.iter().any(|name| name.contains(&other.id.hyphenated())), "{names:?}");
    for node in [kept, next] {
        node.leave().await.unwrap();
    }
}

/// What left before it was watched is as good as an event of it, behind the watch on the own node.
#[tokio::test]
async fn who_finds_nobody_ahead_to_watch_enters_without_listing_unless_it_is_gone_itself() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    for (key, revoked) in [("a", false), ("b", true)] {
        let queue = address(&config, Kind::Mutex, key);
        let holder = admitted(other.join(&join(&queue, Exclusive)).await);
        let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
        if revoked {
            assert!(other.revoke(&queue, waiter.state().sequence()).await.unwrap());
        }
        holder.leave().await.unwrap();
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        let ended = soon(waiter.admitted()).await.map_err(|error| error.lost_reason());
        assert_eq!(ended, if revoked { Err(Some(LostReason::Revoked)) } else { Ok(()) });
        assert!(!listed.has_fired());
    }
}

/// To a reader that is as good as its departure.
#[tokio::test]
async fn a_reader_whose_only_writer_turned_reader_before_it_was_watched_enters_beside_it() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    let holder = admitted(other.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(one.join(&join(&queue, Shared)).await);
    holder.downgrade().await.unwrap();
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    soon(waiter.admitted()).await.unwrap();
    assert!(!listed.has_fired() && holder.state().lost().is_none());
}

/// A writer that turned reader is not there under its name either.
#[tokio::test]
async fn a_writer_that_finds_nobody_ahead_to_watch_waits_for_the_reader_that_it_turned_into() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::RwLock, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let holder = admitted(other.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
    holder.downgrade().await.unwrap();
    assert!(still_waits(&one, &queue, waiter.admitted()).await);
    holder.leave().await.unwrap();
    soon(waiter.admitted()).await.unwrap();
}

#[tokio::test]
async fn who_is_removed_while_it_is_cut_off_is_not_admitted_when_its_predecessor_is_gone_too() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let holder = admitted(other.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
    assert!(still_waits(&one, &queue, waiter.admitted()).await);
    let ends = async {
        proxy.cut();
        assert!(other.revoke(&queue, waiter.state().sequence()).await.unwrap());
        holder.leave().await.unwrap();
        proxy.resume();
    };
    let (ended, ()) = soon(async { tokio::join!(biased; waiter.admitted(), ends) }).await;
    assert_eq!(ended.unwrap_err().lost_reason(), Some(LostReason::Revoked));
}

#[tokio::test]
async fn waiters_are_admitted_in_order_each_by_its_predecessors_departure() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Mutex, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let first = admitted(one.join(&join(&queue, Exclusive)).await);
    let second = waiting(other.join(&join(&queue, Exclusive)).await);
    let third = waiting(one.join(&join(&queue, Exclusive)).await);
    let listed = one.list(&queue, ALL).await.unwrap();
    let sequences: Vec<_> = listed.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [&first, &second, &third].map(|node| node.state().sequence()));
    assert_eq!(listed.iter().map(|entry| entry.admitted).collect::<Vec<_>>(), [true, false, false]);
    assert!(listed.iter().all(|entry| entry.label == "tester" && entry.age.is_some()));
    // By pages, too.
    let page = one.list(&queue, Page { after: sequences[0], most: 1 }).await.unwrap();
    assert_eq!(page.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [sequences[1]]);

    assert!(still_waits(&other, &queue, second.admitted()).await);
    first.leave().await.unwrap();
    soon(second.admitted()).await.unwrap();
    assert!(still_waits(&one, &queue, third.admitted()).await);
    second.leave().await.unwrap();
    soon(third.admitted()).await.unwrap();
    third.leave().await.unwrap();
    // Leaving again, and what is gone, is no error.
    third.leave().await.unwrap();
    assert!(one.list(&queue, ALL).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_waiter_that_leaves_in_mid_queue_admits_nobody() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Mutex, "a");
    let backend = backend(&config).await;
    let first = admitted(backend.join(&join(&queue, Exclusive)).await);
    let second = waiting(backend.join(&join(&queue, Exclusive)).await);
    let third = waiting(backend.join(&join(&queue, Exclusive)).await);
    assert!(still_waits(&backend, &queue, third.admitted()).await);
    second.leave().await.unwrap();
    assert!(still_waits(&backend, &queue, third.admitted()).await);
    first.leave().await.unwrap();
    soon(third.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_refused_try_leaves_nothing() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Mutex, "a");
    let backend = backend(&config).await;
    let held = admitted(backend.join(&join(&queue, Exclusive)).await);
    let attempt = latchwork_core::contracts::Join { patience: Patience::Try, ..join(&queue, Exclusive) };
    assert!(matches!(backend.join(&attempt).await, Ok(Joined::Refused)));
    assert_eq!(backend.list(&queue, ALL).await.unwrap().len(), 1);
    held.leave().await.unwrap();
}

#[tokio::test]
async fn curators_contenders_are_honoured_at_an_exact_address_and_other_children_do_no_harm() {
    let addr = server().await.addr();
    let config = config(addr);
    let stranger = stranger(addr).await;
    let path = format!("/{}-app/locks/invoices", config.namespace);
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex(Address::exact(path.as_str())).unwrap();
    // The directories are made as Curator makes them.
    let _ = soon(mutex.acquire()).await.unwrap().release().await.unwrap();
    put(&stranger, &format!("{path}/note"), CreateMode::Persistent).await;
    let foreign = put(
        &stranger,
        &format!("{path}/_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-"),
        CreateMode::EphemeralSequential,
    )
    .await;
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await }
    });
    soon(async {
        while mutex.queue(0, 10).await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!waiting.is_finished());
    stranger.delete(&foreign, None).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    // A Curator behind us sees our node as one of its own.
    let names = stranger.list_children(&path).await.unwrap();
    assert!(names.iter().any(|name| name.starts_with("_c_") && name.contains("-lock-")), "{names:?}");
    let _ = guard.release().await.unwrap();
    coordinator.close().await.unwrap();
}

#[tokio::test]
async fn readers_share_and_wait_for_the_nearest_earlier_writer() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::RwLock, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let reader = admitted(one.join(&join(&queue, Shared)).await);
    let beside = admitted(other.join(&join(&queue, Shared)).await);
    let writer = waiting(one.join(&join(&queue, Exclusive)).await);
    let behind = waiting(other.join(&join(&queue, Shared)).await);
    let last = waiting(one.join(&join(&queue, Shared)).await);
    reader.leave().await.unwrap();
    assert!(still_waits(&one, &queue, writer.admitted()).await);
    beside.leave().await.unwrap();
    soon(writer.admitted()).await.unwrap();
    assert!(still_waits(&other, &queue, behind.admitted()).await);
    writer.leave().await.unwrap();
    soon(behind.admitted()).await.unwrap();
    soon(last.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_writer_is_not_admitted_beside_a_writer_that_turned_reader() {
    let addr = server().await.addr();
    let config = config(addr);
    let backend = backend(&config).await;
    let stranger = stranger(addr).await;
    let path = format!("/{}-app/rw", config.namespace);
    put(&stranger, &format!("/{}-app", config.namespace), CreateMode::Container).await;
    put(&stranger, &path, CreateMode::Container).await;
    let id = "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-";
    let writing = put(&stranger, &format!("{path}/{id}__WRIT__"), CreateMode::EphemeralSequential).await;
    let queue = address(&config, Kind::RwLock, Address::exact(path.as_str()));
    let writer = waiting(backend.join(&join(&queue, Exclusive)).await);
    assert!(still_waits(&backend, &queue, writer.admitted()).await);
    // As Curator downgrades: the reader takes the writer's counter, then the writer goes.
    let reading = writing.replace("__WRIT__", "__READ__");
    put(&stranger, &reading, CreateMode::Ephemeral).await;
    stranger.delete(&writing, None).await.unwrap();
    assert!(still_waits(&backend, &queue, writer.admitted()).await);
    stranger.delete(&reading, None).await.unwrap();
    soon(writer.admitted()).await.unwrap();
}

/// Whoever of two holders leaves first, the next is admitted: no single watched node would do (RULES B6).
#[tokio::test]
async fn permits_are_given_on_whichever_departure_and_pass_down_the_queue() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    for (key, first_to_leave) in [("a", 0), ("b", 1)] {
        let queue = address(&config, Kind::Semaphore, key);
        let holders = [
            admitted(one.join(&join(&queue, Permits(1))).await),
            admitted(other.join(&join(&queue, Permits(1))).await),
        ];
        let head = waiting(one.join(&join(&queue, Permits(1))).await);
        let next = waiting(other.join(&join(&queue, Permits(1))).await);
        let last = waiting(one.join(&join(&queue, Permits(2))).await);
        let (head_waits, next_waits, last_waits) = (
            tokio::spawn({
                let node = head.clone();
                async move { node.admitted().await }
            }),
            tokio::spawn({
                let node = next.clone();
                async move { node.admitted().await }
            }),
            tokio::spawn({
                let node = last.clone();
                async move { node.admitted().await }
            }),
        );
        holders[first_to_leave].leave().await.unwrap();
        soon(head_waits).await.unwrap().unwrap();
        assert!(still_waits(&other, &queue, next.admitted()).await);
        holders[1 - first_to_leave].leave().await.unwrap();
        soon(next_waits).await.unwrap().unwrap();
        head.leave().await.unwrap();
        assert!(still_waits(&one, &queue, last.admitted()).await);
        next.leave().await.unwrap();
        soon(last_waits).await.unwrap().unwrap();
        last.leave().await.unwrap();
    }
}

#[tokio::test]
async fn many_permits_go_round_without_a_sleeper() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Semaphore, "a");
    let backends = [backend(&config).await, backend(&config).await];
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..24 {
        let (backend, queue) = (backends[n % 2].clone(), queue.clone());
        tasks.spawn(async move {
            let request = latchwork_core::contracts::Join {
                limit: AskedLimit::Exactly(7),
                ..join(&queue, Permits(1 + u32::try_from(n % 3).unwrap()))
            };
            let node = match backend.join(&request).await.unwrap() {
                Joined::Admitted(node) => node,
                Joined::Waiting(node) => {
                    // Well within the re-check, which would hide a lost wake-up.
                    tokio::time::timeout(Duration::from_secs(8), node.admitted()).await.unwrap().unwrap();
                    node
                }
                Joined::Refused => panic!("it was no try"),
            };
            node.leave().await.unwrap();
        });
    }
    soon(async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn another_limit_is_a_conflict_and_leaves_nothing() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Semaphore, "a");
    let backend = backend(&config).await;
    let with =
        |limit: AskedLimit, claim: Claim| latchwork_core::contracts::Join { limit, ..join(&queue, claim) };
    let conflict =
        |joined: latchwork_core::Result<Joined>| *joined.unwrap_err().kind() == ErrorKind::Conflict;
    assert!(conflict(backend.join(&with(AskedLimit::Stored, Permits(1))).await), "none is stored yet");
    let held = admitted(backend.join(&with(AskedLimit::Exactly(2), Permits(1))).await);
    assert!(conflict(backend.join(&with(AskedLimit::Exactly(3), Permits(1))).await));
    assert!(conflict(backend.join(&with(AskedLimit::Stored, Permits(3))).await));
    let followed = admitted(backend.join(&with(AskedLimit::Stored, Permits(1))).await);
    assert_eq!(backend.list(&queue, ALL).await.unwrap().len(), 2);
    for node in [held, followed] {
        node.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_holder_and_a_waiter_whose_nodes_are_deleted_hear_revoked_at_once() {
    let addr = server().await.addr();
    let config = config(addr);
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let stranger = stranger(addr).await;
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(backend.join(&join(&queue, Exclusive)).await);
    let waits = tokio::spawn({
        let node = waiter.clone();
        async move { node.admitted().await }
    });
    assert!(still_waits(&backend, &queue, waiter.admitted()).await);
    let path = format!("/{}/mutex/a", config.namespace);
    let names: BTreeSet<_> = stranger
        .list_children(&path)
        .await
        .unwrap()
        .into_iter()
        .map(|name| (name[name.len() - 10..].to_owned(), name))
        .collect();
    let [holding, waiting]: [_; 2] =
        names.into_iter().map(|(_, name)| name).collect::<Vec<_>>().try_into().unwrap();
    // The waiter first: it must not take the holder's end for its turn.
    stranger.delete(&format!("{path}/{waiting}"), None).await.unwrap();
    stranger.delete(&format!("{path}/{holding}"), None).await.unwrap();
    let told = tokio::time::timeout(backend.lease().ttl(), holder.state().until_lost()).await;
    assert_eq!(told, Ok(LostReason::Revoked));
    assert_eq!(soon(waits).await.unwrap().unwrap_err().lost_reason(), Some(LostReason::Revoked));
    assert_eq!(backend.lease().lost(), None, "the lease is none the worse");
    backend.close(Close::Orderly).await.unwrap();
}

/// permits(3): A(2) and B(1) hold, the limit falls to 2, C(1) comes: by the sums B looks not admitted, and C would wait for it
/// for ever. The holders mark themselves at the change (RULES B6b).
#[tokio::test]
async fn a_lowered_limit_puts_nobody_to_sleep() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let backend = backend(&config).await;
    let stranger = stranger(addr).await;
    let with =
        |limit: AskedLimit, claim: Claim| latchwork_core::contracts::Join { limit, ..join(&queue, claim) };
    let first = admitted(backend.join(&with(AskedLimit::Exactly(3), Permits(2))).await);
    let second = admitted(backend.join(&with(AskedLimit::Stored, Permits(1))).await);
    stranger.set_data(&format!("/{}/limits/a", config.namespace), b"2", None).await.unwrap();
    let third = waiting(backend.join(&with(AskedLimit::Stored, Permits(1))).await);
    let waits = tokio::spawn({
        let node = third.clone();
        async move { node.admitted().await }
    });
    let marked = async {
        loop {
            let mut marks = 0;
            for name in stranger.list_children(&format!("/{}/semaphore/a", config.namespace)).await.unwrap() {
                let path = format!("/{}/semaphore/a/{name}", config.namespace);
                marks += usize::from(stranger.get_data(&path).await.unwrap().0.ends_with(b"\0admitted"));
            }
            if marks == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(marked).await;
    assert!(backend.list(&queue, ALL).await.unwrap().iter().filter(|entry| entry.admitted).count() == 2);
    first.leave().await.unwrap();
    // Well before the re-check.
    tokio::time::timeout(Duration::from_secs(5), waits).await.unwrap().unwrap().unwrap();
    second.leave().await.unwrap();
    third.leave().await.unwrap();
}
