//! BARRIER-: members pass and leave together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::recipes::{Barrier, DoubleBarrier, Inside};
use latchwork_core::{Address, ErrorKind, Key, Kind};

use crate::actions::{Waiter, entries, in_turn};
use crate::bounds::NOISE;
use crate::case::cases;
use crate::errors::{fails, refuses};
use crate::testbed::Client;
use crate::waits::{soon, until, within};

fn barrier(client: &Client, parties: u32) -> Barrier {
    client.coordinator.barrier("a", parties).expect("a good key")
}

fn double(client: &Client, parties: u32) -> DoubleBarrier {
    client.coordinator.double_barrier("a", parties).expect("a good key")
}

fn waiting(client: &Client, parties: u32) -> Waiter<()> {
    let barrier = barrier(client, parties);
    Waiter::of(async move { barrier.wait().await })
}

async fn enter(one: &Client, two: &Client) -> (Inside, Inside) {
    let (first, second) = (double(one, 2), double(two, 2));
    let (first, second) = soon("enter", async { tokio::join!(first.enter(), second.enter()) }).await;
    (first.expect("entered"), second.expect("entered"))
}

async fn until_standing(client: &Client, queue: &Address, expected: usize) {
    until("they stand", || async { entries(client, queue).await.len() == expected }).await;
}

cases! {
    "BARRIER-PASS" =>
    /// no member passes before the number of waiters equals the number of parties, in each round
    async fn barrier_pass_together_round_by_round(context) {
        const ROUNDS: usize = 5;
        let clients: [_; 3] = context.clients().await;
        let came = Arc::new(AtomicUsize::new(0));
        let members = clients.iter().enumerate().map(|(number, client)| {
            let came = Arc::clone(&came);
            async move {
                let barrier = barrier(client, 3);
                for round in 1..=ROUNDS {
                    // A different member is last in each round.
                    tokio::time::sleep(Duration::from_millis((number + round) as u64 % 3 * 20)).await;
                    came.fetch_add(1, Ordering::AcqRel);
                    barrier.wait().await.expect("passed");
                    let came = came.load(Ordering::Acquire);
                    let allowed = 3 * round..3 * (round + 1);
                    assert!(allowed.contains(&came), "round {round}: a member passed after {came} members had come");
                }
            }
        });
        soon("all rounds", join_all(members)).await;
        refuses(clients[0].coordinator.barrier("a", 0), "parties");
        let exact = Key::exact("/a");
        refuses(clients[0].coordinator.barrier(exact, 2), "key");
    }

    "BARRIER-PASS" =>
    /// a member that died or gave up does not count: the others pass with the next member
    async fn barrier_pass_without_the_dead(context) {
        let (dies, waits, comes) = (context.doomed().await, context.client().await, context.client().await);
        let queue = context.queue_of(Kind::Barrier, "a");
        let dead = waiting(&dies, 3);
        until_standing(&waits, &queue, 1).await;
        latchwork_core::crash(&dies.coordinator).await;
        assert!(dead.outcome().await.is_err(), "passed alone");
        let gives_up = barrier(&comes, 3);
        let error = tokio::time::timeout(NOISE, gives_up.wait()).await;
        assert!(error.is_err(), "two passed a barrier of three");
        // Its place counts until it is given back in the background.
        context.end_lease(&dies).await;
        until_standing(&waits, &queue, 0).await;
        let others = [&waits, &comes].map(|client| waiting(client, 3));
        until_standing(&waits, &queue, 2).await;
        assert!(others.iter().all(|other| !other.is_finished()), "two passed a barrier of three");
        soon("the third", barrier(&waits, 3).wait()).await.expect("passed");
        for other in others {
            other.outcome().await.expect("passed");
        }
    }

    "BARRIER-PASS" =>
    /// a member that lost its lease while it was cut off, and joins again, counts once
    async fn barrier_pass_counts_a_member_once_after_a_loss(context) {
        let (lonely, other) = (context.doomed().await, context.client().await);
        let queue = context.queue_of(Kind::Barrier, "a");
        let lease = lonely.coordinator.lease();
        let waits = waiting(&lonely, 2);
        until_standing(&other, &queue, 1).await;
        let old = entries(&other, &queue).await[0].sequence;
        lonely.link.cut();
        context.outlast(&lonely);
        within(context.recovery(&lonely), "the loss", lease.until_lost()).await;
        lonely.link.heal();
        let again = || async {
            let now = entries(&other, &queue).await;
            matches!(&now[..], [only] if only.sequence > old)
        };
        within(context.recovery(&lonely), "it joins again", until("it joins again", again)).await;
        assert!(!waits.is_finished(), "passed alone");
        soon("the other", barrier(&other, 2).wait()).await.expect("passed");
        waits.outcome().await.expect("passed");
    }

    "BARRIER-PASS" =>
    /// a member with another number of parties gets a conflict, and the number may change when no member uses it
    async fn barrier_pass_refuses_another_number_of_parties(context) {
        let [one, two] = context.clients().await;
        let first = waiting(&one, 3);
        // Until then, a member with another number could store that one.
        let cell = context.queue_of(Kind::Passage, "a");
        let is_stored = || async { two.coordinator.backend().read_cell(&cell).await.expect("readable").is_some() };
        until("the number of the first member is stored", is_stored).await;
        for other in [2, 4] {
            let error = fails(soon("another number", barrier(&two, other).wait()).await, ErrorKind::Conflict, "three are stored");
            assert!(error.to_string().contains("3 parties"), "{error}");
        }
        let others = [&one, &two].map(|client| waiting(client, 3));
        for member in others.into_iter().chain([first]) {
            member.outcome().await.expect("passed");
        }
        let pair = [&one, &two].map(|client| waiting(client, 2));
        for member in pair {
            member.outcome().await.expect("passed");
        }
        let (first, second) = enter(&one, &two).await;
        fails(soon("another number", double(&two, 1).enter()).await, ErrorKind::Conflict, "two are inside");
        let (left, also) = soon("leave", async { tokio::join!(first.leave(), second.leave()) }).await;
        left.and(also).expect("left");
        let alone = soon("alone", double(&two, 1).enter()).await;
        soon("leave", alone.expect("entered").leave()).await.expect("left");
    }

    "BARRIER-PASS" =>
    /// members of a large barrier, of which each looks once, pass together in each round
    async fn barrier_pass_with_many_members(context) {
        const MEMBERS: u32 = 40;
        let clients: [_; 4] = context.clients().await;
        for _ in 0..2 {
            let members: Vec<_> = (0..MEMBERS).map(|number| waiting(&clients[number as usize % 4], MEMBERS)).collect();
            for member in members {
                member.outcome().await.expect("passed");
            }
            let insiders = clients.iter().flat_map(|client| [(); 10].map(|()| double(client, MEMBERS)));
            let leave = async |barrier: DoubleBarrier| barrier.enter().await.expect("entered").leave().await.expect("left");
            soon("all", join_all(insiders.map(leave))).await;
        }
    }

    "BARRIER-LEAVE" =>
    /// members that wait enter as soon as the last member inside has gone, also if it was dropped
    async fn barrier_leave_lets_the_next_enter(context) {
        let (inside, next) = (context.quiet().await, context.quiet().await);
        let queue = context.queue_of(Kind::DoubleBarrier, "a");
        let held = enter(&inside, &inside).await;
        let others = [(); 2].map(|()| {
            let barrier = double(&next, 2);
            Waiter::of(async move { barrier.enter().await })
        });
        until_standing(&inside, &queue, 4).await;
        drop(held);
        for other in others {
            drop(other.guard().await);
        }
    }

    "BARRIER-LEAVE" =>
    /// no member leaves a double barrier before all entered members are ready to leave, and the next members enter
    /// after all have left
    async fn barrier_leave_together_and_enter_again(context) {
        let [one, two, late] = context.clients().await;
        for _ in 0..3 {
            let (first, second) = enter(&one, &two).await;
            assert!(first.is_held() && second.is_held());
            let others = [(); 2].map(|()| {
                let barrier = double(&late, 2);
                Waiter::of(async move { barrier.enter().await })
            });
            let mut leaving = Box::pin(first.leave());
            let early = tokio::time::timeout(Duration::from_millis(200), &mut leaving).await;
            assert!(early.is_err(), "left alone: {early:?}");
            assert!(others.iter().all(|other| !other.is_finished()), "a member entered while another was inside");
            let (left, also) = soon("leave", async { tokio::join!(leaving, second.leave()) }).await;
            left.expect("left");
            also.expect("left");
            let inside = in_turn(others.into_iter().map(async |other| other.guard().await)).await;
            for left in soon("the next leave", join_all(inside.into_iter().map(|inside| inside.leave()))).await {
                left.expect("left");
            }
        }
    }

    "BARRIER-LEAVE" =>
    /// the others wait for a member that died inside a double barrier until its lease has ended, and no longer
    async fn barrier_leave_without_the_dead(context) {
        let (dies, stays) = (context.doomed().await, context.client().await);
        let (first, second) = enter(&dies, &stays).await;
        let bound = context.over(&dies) + stays.ttl() / 3 + NOISE;
        context.kill(&dies).await;
        within(bound, "its leave", second.leave()).await.expect("left");
        assert!(!first.is_held());
        let error = first.leave().await.expect_err("it died");
        assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Lost(_)), "{error}");
    }
}
