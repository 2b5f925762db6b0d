//! NODE-: the turn of a waiter.

use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::{Claim, Kind};

use super::node::counts;
use crate::actions::{acquire, admitted, in_turn, leave, listing, queue_up, release, waiting};
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::testbed::Fault;
use crate::waits::{until, within};

cases! {
    "NODE-WAIT" adapted =>
    /// a hand-off comes by an event, well before the waiter's re-check
    async fn node_wait_a_handoff_is_an_event(context) {
        let (holder, waiting) = (context.quiet().await, context.quiet().await);
        for _ in 0..3 {
            let guard = acquire(&context.mutex(&holder, "a")).await;
            let waiter = queue_up(&context.mutex(&waiting, "a"), 2).await;
            guard.release().await.expect("released");
            release(within(QUIET_TTL / 10, "the hand-off", waiter.outcome()).await.expect("admitted")).await;
        }
    }

    "NODE-WAIT" alone adapted =>
    /// the cost of a departure does not grow with the number of waiters
    async fn node_wait_departure_cost_does_not_grow_with_waiters(context) {
        if !counts(context).await {
            return;
        }
        let (one, other) = (context.quiet().await, context.quiet().await);
        let departures = 4;
        let mut costs = Vec::new();
        for (key, waiters) in [("few", 5), ("many", 30)] {
            let guard = acquire(&context.mutex(&one, key)).await;
            let queue = in_turn((0..waiters).map(async |place| queue_up(&context.mutex(if place % 2 == 0 { &other } else { &one }, key), place + 2).await)).await;
            let mut queue = queue.into_iter();
            let before = context.requests().await;
            guard.release().await.expect("released");
            for waiter in queue.by_ref().take(departures - 1) {
                release(waiter.guard().await).await;
            }
            let last = queue.next().expect("more waiters than departures").guard().await;
            costs.push(context.requests().await - before);
            drop(queue);
            last.release().await.expect("released");
        }
        // A herd of 25 would cost a hundred more at each departure; renewals and pings a handful, and the
        // second look of a waiter for permits on ZooKeeper seven.
        let [few, many] = costs[..] else { unreachable!("two queues") };
        let most = few + 10 * departures as u64;
        assert!(many <= most, "{departures} departures cost {few} requests with 5 waiters and {many} with 30");
        assert!(few >= departures as u64, "{few} requests: the fixture does not count requests");
    }

    "NODE-WAIT" adapted =>
    /// a departure admits only the next waiter, and a waiter that leaves from the middle of the queue admits none
    async fn node_wait_a_departure_admits_the_next_alone(context) {
        let [holder, one, two, three] = context.clients().await;
        let guard = acquire(&context.mutex(&holder, "a")).await;
        let first = queue_up(&context.mutex(&one, "a"), 2).await;
        let second = queue_up(&context.mutex(&two, "a"), 3).await;
        let third = queue_up(&context.mutex(&three, "a"), 4).await;
        drop(second);
        until("the cancelled waiter is gone", || async { listing(&context.mutex(&holder, "a")).await.len() == 3 }).await;
        assert!(!first.is_finished() && !third.is_finished(), "a waiter was admitted while another client held");
        guard.release().await.expect("released");
        let guard = first.guard().await;
        assert!(!third.is_finished(), "a waiter was admitted while another client held");
        guard.release().await.expect("released");
        release(third.guard().await).await;
    }

    "NODE-NO-LOST-WAKE" adapted clock =>
    /// a waiter that was cut off when its turn came notices it within its re-check
    async fn node_no_lost_wake(context) {
        let [holder, waiting] = context.clients().await;
        let guard = acquire(&context.mutex(&holder, "a")).await;
        let waiter = queue_up(&context.mutex(&waiting, "a"), 2).await;
        waiting.link.cut();
        guard.release().await.expect("released");
        let turn = || async { listing(&context.mutex(&holder, "a")).await.first().is_some_and(|entry| entry.admitted) };
        until("its turn has come", turn).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiter.is_finished(), "the waiter was admitted without an answer of the server");
        waiting.link.heal();
        release(within(waiting.ttl() + context.late(), "the admission", waiter.outcome()).await.expect("admitted")).await;
    }

    "NODE-NO-LOST-WAKE" adapted =>
    /// a wake-up that the server drops delays the waiter until its re-check
    async fn node_no_lost_wake_when_it_is_dropped(context) {
        let [holder, waiting] = context.clients().await;
        let guard = acquire(&context.mutex(&holder, "a")).await;
        let waiter = queue_up(&context.mutex(&waiting, "a"), 2).await;
        let sequence = listing(&context.mutex(&holder, "a")).await[1].sequence;
        let dropped = waiting.link.drop_wake(&context.queue("a"), sequence);
        assert_eq!(dropped, context.can(Fault::DropWake), "Fixture::can must match the fixture");
        if !dropped {
            context.leave_out("the fixture cannot drop a wake-up");
        }
        guard.release().await.expect("released");
        let asked = tokio::time::Instant::now();
        let next = within(waiting.ttl() + context.late(), "the admission", waiter.outcome()).await.expect("admitted");
        if dropped && context.testbed.is_paused() {
            assert!(asked.elapsed() > Duration::ZERO, "nothing was dropped");
        }
        next.release().await.expect("released");
    }

    "NODE-DEATH" adapted clock =>
    /// a dead waiter in the middle of the queue blocks others no longer than its lease
    async fn node_death_in_mid_queue(context) {
        let (holder, dead, last) = (context.client().await, context.doomed().await, context.client().await);
        let guard = acquire(&context.mutex(&holder, "a")).await;
        let doomed = queue_up(&context.mutex(&dead, "a"), 2).await;
        let waiter = queue_up(&context.mutex(&last, "a"), 3).await;
        let bound = context.over(&dead);
        latchwork_core::crash(&dead.coordinator).await;
        guard.release().await.expect("released");
        context.end_lease(&dead).await;
        release(within(bound, "the admission", waiter.outcome()).await.expect("admitted")).await;
        drop(doomed);
    }

    "NODE-DEATH" clock =>
    /// a waiter notices without an event that a dead client's lease has run out, for a mutex, a reader, a writer and
    /// permits
    async fn node_death_is_found_by_waiters_of_each_kind(context) {
        let (dead, other) = (context.doomed().await, context.client().await);
        let claims = [
            (Kind::Mutex, Claim::Exclusive, Claim::Exclusive),
            (Kind::RwLock, Claim::Shared, Claim::Exclusive),
            (Kind::RwLock, Claim::Exclusive, Claim::Shared),
            (Kind::Semaphore, Claim::Permits(2), Claim::Permits(1)),
        ];
        let mut nodes = Vec::new();
        for (place, (kind, held, wanted)) in claims.into_iter().enumerate() {
            let queue = context.queue_of(kind, &format!("found-{place}"));
            admitted(&dead, &queue, held).await;
            nodes.push((waiting(&other, &queue, wanted).await, held));
        }
        let bound = context.over(&dead);
        latchwork_core::crash(&dead.coordinator).await;
        let admissions = join_all(nodes.iter().map(|(node, _)| node.admitted()));
        for (admission, (node, held)) in within(bound, "all admissions", admissions).await.into_iter().zip(&nodes) {
            admission.unwrap_or_else(|error| panic!("behind {held:?}: {error}"));
            leave(node).await;
        }
    }
}
