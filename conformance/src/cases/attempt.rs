//! NODE-: repeated, late and dropped attempts.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Join, Joined, Node};
use latchwork_core::{Claim, ErrorKind, Kind};

use crate::actions::{
    Waiter, acquire, acquire_and_release, enters, entries, in_the_end, join_of, leave, listing, promptly,
    queue_up, try_acquire, without_reply,
};
use crate::case::cases;
use crate::errors::fails;
use crate::testbed::Client;
use crate::waits::{after_polls, soon, until, within};

async fn held(joined: Joined) -> Arc<dyn Node> {
    match joined {
        Joined::Admitted(node) => node,
        Joined::Waiting(node) => {
            promptly(&node).await;
            node
        }
        Joined::Refused => panic!("a try was refused"),
    }
}

cases! {
    "NODE-IDEMPOTENT" adapted =>
    /// a join is sent again after a lost reply, and makes one node
    async fn node_idempotent_a_lost_reply_makes_one_node(context) {
        let [client, other] = context.clients().await;
        let key = "lost-reply-of-a-join";
        let guard = without_reply(&client, key, acquire(&context.mutex(&client, key))).await;
        let nodes = listing(&context.mutex(&other, key)).await;
        assert_eq!(nodes.len(), 1, "{nodes:?}");
        assert_eq!(nodes[0].sequence, guard.token().sequence());
        assert!(nodes[0].admitted);
        guard.release().await.expect("released");
        assert!(listing(&context.mutex(&other, key)).await.is_empty(), "the release left a node");
    }

    "NODE-IDEMPOTENT" adapted =>
    /// a join that arrives after its attempt was cancelled leaves no node
    async fn node_idempotent_a_late_join_makes_no_ghost(context) {
        let [client, other] = context.clients().await;
        let key = "a-late-join";
        let mut parked = client.link.park(key);
        let waiter = Waiter::of(context.mutex(&client, key).acquire());
        soon("the link catches the join", parked.caught()).await.expect("caught");
        waiter.cancel().await;
        acquire_and_release(&context.mutex(&client, key)).await;
        soon("the late join is delivered", parked.deliver()).await;
        assert!(listing(&context.mutex(&other, key)).await.is_empty(), "a ghost");
        acquire_and_release(&context.mutex(&other, key)).await;
    }

    "NODE-IDEMPOTENT" adapted =>
    /// a join that arrives after its attempt was sent again, admitted and released leaves no node
    async fn node_idempotent_a_late_join_after_the_release_makes_no_ghost(context) {
        let [client, other] = context.clients().await;
        let key = "a-very-late-join";
        let mut parked = client.link.park(key);
        let waiter = Waiter::of(context.mutex(&client, key).acquire());
        soon("the link catches the join", parked.caught()).await.expect("caught");
        let guard = waiter.guard().await;
        soon("release", guard.release()).await.expect("answered");
        soon("the late join is delivered", parked.deliver()).await;
        assert!(listing(&context.mutex(&other, key)).await.is_empty(), "a ghost");
        acquire_and_release(&context.mutex(&other, key)).await;
    }

    "NODE-IDEMPOTENT" =>
    /// directly at the backend: a join that is repeated after a lost reply finds its node, admitted or waiting; an
    /// abandoned join leaves none, and an abandon may be repeated
    async fn node_idempotent_a_repeated_join_is_the_same_node(context) {
        let (one, two) = (context.quiet().await, context.quiet().await);
        let key = "a-repeated-join";
        let queue = context.queue_of(Kind::Mutex, key);
        // The first join may also make permanent data.
        leave(&enters(&one, &queue, Claim::Exclusive).await.1).await;
        let unanswered = async |client: &Client, join: &Join| {
            let answer = without_reply(client, key, client.coordinator.backend().join(join)).await;
            fails(answer, ErrorKind::OutcomeUnknown, "no answer");
        };
        let repeat = async |client: &Client, join: &Join| {
            let repeated = Join { repeated: true, ..join.clone() };
            in_the_end(|| client.coordinator.backend().join(&repeated)).await.expect("joined")
        };
        let (first, second) = (join_of(&queue, Claim::Exclusive), join_of(&queue, Claim::Exclusive));
        unanswered(&one, &first).await;
        let node = held(repeat(&one, &first).await).await;
        unanswered(&two, &second).await;
        let Joined::Waiting(waits) = repeat(&two, &second).await else { panic!("two hold") };
        let listed: Vec<_> = entries(&two, &queue).await.iter().map(|entry| entry.sequence).collect();
        assert_eq!(listed, [node.state().sequence(), waits.state().sequence()]);
        leave(&node).await;
        promptly(&waits).await;
        leave(&waits).await;
        leave(&waits).await;
        assert_eq!(entries(&two, &queue).await, []);
        let third = join_of(&queue, Claim::Exclusive);
        unanswered(&one, &third).await;
        for _ in 0..2 {
            soon("abandon", async { while one.coordinator.backend().abandon(&third).await.is_err() {} }).await;
            assert_eq!(entries(&two, &queue).await, []);
        }
    }

    "NODE-LEAVE-OWN" adapted =>
    /// a release is retried after a lost reply, and removes no newer node; it reports success only if the server knows
    /// that the lock was held
    async fn node_leave_own_and_nothing_newer(context) {
        let [client, other] = context.clients().await;
        let key = "lost-reply-of-a-leave";
        let guard = acquire(&context.mutex(&client, key)).await;
        let waiter = queue_up(&context.mutex(&other, key), 2).await;
        if let Err(error) = without_reply(&client, key, guard.release()).await {
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        }
        let next = waiter.guard().await;
        assert!(try_acquire(&context.mutex(&client, key)).await.is_none(), "the retried release removed the newer node");
        assert!(next.is_held());
        assert_eq!(listing(&context.mutex(&client, key)).await.len(), 1);
        next.release().await.expect("released");
    }

    "NODE-CANCEL" adapted =>
    /// a waiter that is dropped in the middle of the queue leaves it
    async fn node_cancel_a_dropped_wait_leaves_nothing(context) {
        let [holder, client] = context.clients().await;
        let guard = acquire(&context.mutex(&holder, "a")).await;
        for _ in 0..5 {
            drop(queue_up(&context.mutex(&client, "a"), 2).await);
            until("its node is gone", || async { listing(&context.mutex(&holder, "a")).await.len() == 1 }).await;
        }
        guard.release().await.expect("released");
        acquire_and_release(&context.mutex(&client, "a")).await;
    }

    "NODE-CANCEL" adapted =>
    /// after drop(guard) a try by the same client succeeds at once, every time
    async fn node_cancel_drop_then_try_succeeds(context) {
        let client = context.client().await;
        let mutex = context.mutex(&client, "a");
        for round in 0..20 {
            drop(try_acquire(&mutex).await.unwrap_or_else(|| panic!("round {round}: the try waits for a node of its own client")));
        }
    }

    "NODE-CANCEL" adapted =>
    /// acquires dropped at many different instants leave no node and no stuck waiter
    async fn node_cancel_at_any_instant(context) {
        let [client, other] = context.clients().await;
        // Each request becomes an await point, with an instant before and after the server's work.
        client.link.delay(Duration::from_millis(20));
        let (mutex, theirs) = (context.mutex(&client, "a"), context.mutex(&other, "a"));
        let (mut steps, ttl) = (0, client.ttl());
        loop {
            drop(after_polls(steps, mutex.acquire()).await.map(|guard| guard.expect("acquired")));
            let held = acquire(&theirs).await;
            let releasing = async {
                let here = until("the waiter is in the queue", || async { listing(&theirs).await.len() == 2 });
                let _ = tokio::time::timeout(Duration::from_millis(200), here).await;
                held.release().await.expect("released");
            };
            let (waited, ()) = tokio::join!(after_polls(steps, mutex.acquire()), releasing);
            let done = waited.is_some();
            drop(waited.map(|guard| guard.expect("acquired")));
            let next = within(ttl / 2, "the next admission", theirs.acquire()).await.expect("acquired");
            next.release().await.expect("released");
            if done {
                break;
            }
            steps += 1;
            assert!(steps < 200, "the acquisition has more await points than expected");
        }
        assert!(steps >= 3, "dropped at only {steps} await points: Link::delay has no effect");
        client.link.heal();
        acquire_and_release(&theirs).await;
    }

    "NODE-CANCEL" adapted =>
    /// a release that is dropped at any instant continues, and frees the lock
    async fn node_cancel_a_dropped_release_goes_on(context) {
        let [client, other] = context.clients().await;
        client.link.delay(Duration::from_millis(20));
        for steps in 0..200 {
            let guard = acquire(&context.mutex(&client, "a")).await;
            let released = after_polls(steps, guard.release()).await;
            assert!(steps == 0 || !guard.is_held(), "a release must start at its first poll");
            drop(guard);
            let next = within(client.ttl() / 2, "the next admission", context.mutex(&other, "a").acquire()).await.expect("acquired");
            next.release().await.expect("released");
            if let Some(outcome) = released {
                outcome.expect("held until then");
                assert!(steps >= 2, "complete after {steps} steps: Link::delay has no effect");
                client.link.heal();
                return;
            }
        }
        panic!("the release has more await points than expected");
    }
}
