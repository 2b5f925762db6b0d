//! GROUP- and BARRIER-: who is there, and who goes on together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::recipes::{Barrier, DoubleBarrier, Group, GroupWatch, Membership};
use latchwork_core::{Address, ErrorKind, Kind};

use crate::actions::{entries, in_time};
use crate::bounds::{CLEAN_UP, NOISE, QUIET_TTL};
use crate::case::cases;
use crate::testbed::{Client, Fault};
use crate::waits::{soon, until, within};

fn group(client: &Client) -> Group {
    client.coordinator.group("a").expect("a good key")
}

fn barrier(client: &Client, parties: u32) -> Barrier {
    client.coordinator.barrier("a", parties).expect("a good key")
}

fn double(client: &Client, parties: u32) -> DoubleBarrier {
    client.coordinator.double_barrier("a", parties).expect("a good key")
}

async fn join(client: &Client, data: &str) -> Membership {
    soon("join", group(client).join(data)).await.expect("joined")
}

async fn members(group: &Group) -> Vec<String> {
    soon("members", group.members()).await.expect("read").into_iter().map(|member| member.data).collect()
}

/// Watches until these are the members.
async fn until_members(watch: &mut GroupWatch, expected: &[&str]) {
    loop {
        let members = watch.changed().await.expect("watched");
        if members.iter().map(|member| member.data.as_str()).eq(expected.iter().copied()) {
            return;
        }
    }
}

/// As [`until_members`], before the watch looks by itself.
async fn told_members(watch: &mut GroupWatch, expected: &[&str]) {
    within(CLEAN_UP, "the members are told", until_members(watch, expected)).await;
}

/// Does something while the watch waits, and waits until it is told of these members.
async fn told<T>(watch: &mut GroupWatch, expected: &[&str], change: impl Future<Output = T>) -> (T, ()) {
    let change = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        change.await
    };
    tokio::join!(change, told_members(watch, expected))
}

/// Waits until so many stand in a queue.
async fn until_standing(client: &Client, queue: &Address, expected: usize) {
    until("they stand", || async { entries(client, queue).await.len() == expected }).await;
}

cases! {
    "GROUP-MEMBERS" =>
    /// members are seen by all in the order of joining, as they come and go
    async fn group_members_are_seen_in_the_order_of_joining(context) {
        // A watch looks by itself once in a third of its TTL: not within this case.
        let watching = context.client_with(&context.config(QUIET_TTL)).await;
        let (one, two) = (context.client().await, context.client().await);
        let mut watch = soon("watch", group(&watching).watch()).await.expect("watched");
        told_members(&mut watch, &[]).await;
        // Whoever asks afterwards reads: the watch waits before each change.
        let (first, ()) = told(&mut watch, &["first"], join(&one, "first")).await;
        let (second, ()) = told(&mut watch, &["first", "second"], join(&two, "second")).await;
        let (third, ()) = told(&mut watch, &["first", "second", "third"], join(&one, "third")).await;
        assert_eq!(members(&group(&two)).await, ["first", "second", "third"]);
        assert!(first.number() < second.number() && second.number() < third.number());
        let (left, ()) = told(&mut watch, &["first", "third"], second.release()).await;
        in_time(left.expect("left"));
        let ((), ()) = told(&mut watch, &["third"], async { drop(first) }).await;
        let (left, ()) = told(&mut watch, &[], third.release()).await;
        in_time(left.expect("left"));
        let error = group(&one).join("a\nb").await.expect_err("two lines");
        assert_eq!((error.argument(), error.operation(), error.key()), (Some("label"), Some("join"), Some("a")));
    }

    "GROUP-MEMBERS" =>
    /// a member that died is seen to be gone, and one that was cut off learns that it is none
    async fn group_members_go_with_their_lease(context) {
        let (watching, stays) = (context.mortal().await, context.client().await);
        let (dies, is_cut) = (context.mortal().await, context.mortal().await);
        let last = join(&stays, "stays").await;
        let (gone, cut) = (join(&dies, "dies").await, join(&is_cut, "is cut").await);
        let mut watch = soon("watch", group(&watching).watch()).await.expect("watched");
        told_members(&mut watch, &["stays", "dies", "is cut"]).await;
        assert!(context.can(Fault::Cut));
        is_cut.link.cut();
        let bound = context.recovery(&dies) + watching.ttl() / 3 + NOISE;
        dies.coordinator.crash().await;
        within(bound, "the end of both", until_members(&mut watch, &["stays"])).await;
        assert!(!gone.is_held() && !cut.is_held(), "a member that is none does not know it");
        is_cut.link.heal();
        in_time(last.release().await.expect("left"));
        told_members(&mut watch, &[]).await;
    }

    "BARRIER-PASS" =>
    /// nobody passes before as many wait as there are parties, in every round
    async fn barrier_pass_together_round_by_round(context) {
        const ROUNDS: usize = 5;
        let clients = [context.client().await, context.client().await, context.client().await];
        let came = Arc::new(AtomicUsize::new(0));
        let members = clients.iter().enumerate().map(|(number, client)| {
            let came = Arc::clone(&came);
            async move {
                let barrier = barrier(client, 3);
                for round in 1..=ROUNDS {
                    // Another comes last in each round.
                    tokio::time::sleep(Duration::from_millis((number + round) as u64 % 3 * 20)).await;
                    came.fetch_add(1, Ordering::AcqRel);
                    barrier.wait().await.expect("passed");
                    let came = came.load(Ordering::Acquire);
                    assert!((3 * round..3 * (round + 1)).contains(&came), "{came} came, in round {round}");
                }
            }
        });
        soon("all rounds", join_all(members)).await;
        assert_eq!(clients[0].coordinator.barrier("a", 0).expect_err("zero").argument(), Some("parties"));
        let exact = Address::exact("/a");
        assert_eq!(clients[0].coordinator.barrier(exact, 2).expect_err("exact").argument(), Some("key"));
    }

    "BARRIER-PASS" =>
    /// a member that died, or gave up, is not counted: the others pass with the next one
    async fn barrier_pass_without_the_dead(context) {
        let (dies, waits, comes) = (context.mortal().await, context.client().await, context.client().await);
        let queue = context.queue_of(Kind::Barrier, "a");
        let dead = tokio::spawn({
            let barrier = barrier(&dies, 3);
            async move { barrier.wait().await }
        });
        until_standing(&waits, &queue, 1).await;
        let recovery = context.recovery(&dies);
        dies.coordinator.crash().await;
        assert!(soon("its end", dead).await.expect("no panic").is_err(), "passed alone");
        let gives_up = barrier(&comes, 3);
        let error = tokio::time::timeout(NOISE, gives_up.wait()).await;
        assert!(error.is_err(), "two passed a barrier of three");
        // Its place is given back in the background, and counts until then.
        tokio::time::sleep(recovery).await;
        until_standing(&waits, &queue, 0).await;
        let waiting = [&waits, &comes].map(|client| {
            let barrier = barrier(client, 3);
            tokio::spawn(async move { barrier.wait().await })
        });
        until_standing(&waits, &queue, 2).await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "two passed a barrier of three");
        soon("the third", barrier(&waits, 3).wait()).await.expect("passed");
        for waiting in waiting {
            soon("the others", waiting).await.expect("no panic").expect("passed");
        }
    }

    "BARRIER-LEAVE" =>
    /// nobody leaves a double barrier before all who entered are ready to, and the next enter when
    /// all have left
    async fn barrier_leave_together_and_enter_again(context) {
        let (one, two, late) = (context.client().await, context.client().await, context.client().await);
        for _ in 0..3 {
            let (first, second) = {
                let (first, second) = (double(&one, 2), double(&two, 2));
                let (first, second) = soon("enter", async { tokio::join!(first.enter(), second.enter()) }).await;
                (first.expect("entered"), second.expect("entered"))
            };
            assert!(first.is_held() && second.is_held());
            // One alone does not enter, nor do two while somebody is inside.
            let others = [(); 2].map(|()| {
                let barrier = double(&late, 2);
                tokio::spawn(async move { barrier.enter().await })
            });
            let mut leaving = Box::pin(first.leave());
            let early = tokio::time::timeout(Duration::from_millis(200), &mut leaving).await;
            assert!(early.is_err(), "left alone: {early:?}");
            assert!(others.iter().all(|other| !other.is_finished()), "entered beside one who is inside");
            let (left, also) = soon("leave", async { tokio::join!(leaving, second.leave()) }).await;
            left.expect("left");
            also.expect("left");
            let mut inside = Vec::new();
            for other in others {
                inside.push(soon("the next enter", other).await.expect("no panic").expect("entered"));
            }
            for left in soon("the next leave", join_all(inside.into_iter().map(|inside| inside.leave()))).await {
                left.expect("left");
            }
        }
    }

    "BARRIER-LEAVE" =>
    /// one who dies inside a double barrier is waited for until its lease has ended, and no longer
    async fn barrier_leave_without_the_dead(context) {
        let (dies, stays) = (context.mortal().await, context.mortal().await);
        let (first, second) = (double(&dies, 2), double(&stays, 2));
        let (first, second) = soon("enter", async { tokio::join!(first.enter(), second.enter()) }).await;
        let (first, second) = (first.expect("entered"), second.expect("entered"));
        let bound = context.recovery(&dies) + stays.ttl() / 3 + NOISE;
        dies.coordinator.crash().await;
        within(bound, "its leave", second.leave()).await.expect("left");
        assert!(!first.is_held());
        let error = first.leave().await.expect_err("it died");
        assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Lost { .. }), "{error}");
    }
}
