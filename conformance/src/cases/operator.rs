//! An operator's forced release.

use std::time::Duration;

use latchwork_core::{Ended, ErrorKind, LostReason};

use super::rwlock::{rwlock, writing};
use super::semaphore::{permits, semaphore};
use crate::actions::{acquire, listing, queue_up, release, without_reply};
use crate::bounds::CLEAN_UP;
use crate::case::cases;
use crate::context::Context;
use crate::errors::is_lost;
use crate::exclusive::{Guard, Lock};
use crate::waits::{soon, within};

cases! {
    "NODE-GONE" adapted =>
    /// a forced release frees the lock for the next client; its victim, a holder or a waiter, gets `Revoked` at once
    async fn node_gone_by_a_forced_release_is_reported(context) {
        let (client, operator) = (context.quiet().await, context.client().await);
        let (here, there) = (context.mutex(&client, "a"), context.mutex(&operator, "a"));
        let guard = acquire(&here).await;
        let victim = queue_up(&here, 2).await;
        let next = queue_up(&there, 3).await;
        let listed = listing(&there).await;
        assert!(soon("force", there.force_release(listed[1].sequence)).await.expect("answered"));
        is_lost(within(CLEAN_UP, "the waiter's loss", victim.outcome()).await, LostReason::Revoked);
        assert!(guard.is_held() && !next.is_finished());
        assert!(soon("force", there.force_release(guard.token().sequence())).await.expect("answered"));
        assert_eq!(within(CLEAN_UP, "the holder's loss", guard.lost()).await, Ended::Lost(LostReason::Revoked));
        let next = next.guard().await;
        assert!(next.token() > guard.token());
        for gone in &listed[..2] {
            assert!(!soon("force", there.force_release(gone.sequence)).await.expect("answered"), "twice");
        }
        is_lost(guard.release().await, LostReason::Revoked);
        assert!(next.is_held(), "somebody else's");
        next.release().await.expect("released");

        // The waiter must not take the holder's end for its admission.
        let guard = acquire(&here).await;
        let victim = queue_up(&here, 2).await;
        for gone in listing(&there).await.iter().rev() {
            assert!(soon("force", there.force_release(gone.sequence)).await.expect("answered"));
        }
        is_lost(within(CLEAN_UP, "the waiter's loss", victim.outcome()).await, LostReason::Revoked);
        assert_eq!(within(CLEAN_UP, "the holder's loss", guard.lost()).await, Ended::Lost(LostReason::Revoked));
        assert_eq!(client.coordinator.lease().lost(), None, "other holds of the client must not be lost");
    }

    "NODE-GONE" =>
    /// the same for readers and permits: the next waiters are admitted
    async fn node_gone_by_a_forced_release_makes_room(context) {
        let (client, operator) = (context.quiet().await, context.client().await);
        let reader = soon("read", rwlock(&client, "a").read()).await.expect("acquired");
        let there = rwlock(&operator, "a");
        let writer = writing(&there, 2).await;
        assert!(soon("force", there.force_release(reader.sequence())).await.expect("answered"));
        assert_eq!(within(CLEAN_UP, "the loss", reader.lost()).await, Ended::Lost(LostReason::Revoked));
        release(writer.guard().await).await;

        let (heavy, there) = (permits(&semaphore(&client, "a", 2), 2).await, semaphore(&operator, "a", 2));
        assert!(soon("try", there.try_acquire(1)).await.expect("answered").is_none());
        assert!(soon("force", there.force_release(heavy.sequence())).await.expect("answered"));
        assert_eq!(within(CLEAN_UP, "the loss", heavy.lost()).await, Ended::Lost(LostReason::Revoked));
        release(permits(&there, 2).await).await;

        let (lock, there) = (rwlock(&client, "b"), rwlock(&operator, "b"));
        assert!(!soon("force", there.force_release(1)).await.expect("answered"), "the queue was never used");
        let writer = soon("write", lock.write()).await.expect("acquired");
        let next = writing(&there, 2).await;
        // It keeps the writer's number.
        let reader = soon("downgrade", writer.downgrade()).await.expect("downgraded");
        assert!(!soon("force", there.force_release(reader.sequence() - 1)).await.expect("answered"), "nobody's");
        assert!(soon("force", there.force_release(reader.sequence())).await.expect("answered"));
        assert_eq!(within(CLEAN_UP, "the loss", reader.lost()).await, Ended::Lost(LostReason::Revoked));
        let next = next.guard().await;
        assert!(!soon("force", there.force_release(reader.sequence())).await.expect("answered"), "twice");
        assert!(next.is_held());
        next.release().await.expect("released");
    }

    "NODE-LEAVE-OWN" adapted =>
    /// a release reports the server's state: a hold that was removed on the server is lost, with and without a next
    /// holder
    async fn node_leave_own_reports_a_removal(context) {
        for (forced, followed) in [(true, true), (false, true), (false, false)] {
            let [client, operator] = context.clients().await;
            let there = context.mutex(&operator, "a");
            let guard = acquire(&context.mutex(&client, "a")).await;
            // The server's event then comes after the release.
            client.link.delay(SLOW);
            take_away(context, &there, &guard, forced).await;
            let next = if followed { Some(acquire(&there).await) } else { None };
            let lost = soon("release", guard.release()).await.expect_err("it was lost");
            assert_eq!(lost.lost_reason(), Some(LostReason::Revoked), "forced: {forced}, followed: {followed}");
            client.link.heal();
            if let Some(next) = next {
                assert!(next.is_held());
                next.release().await.expect("released");
            }
        }
    }

    "NODE-LEAVE-OWN" adapted =>
    /// a hold that was removed on the server, and whose release lost its reply, is never reported as held until the
    /// release
    async fn node_leave_own_never_guesses(context) {
        let [client, operator] = context.clients().await;
        let there = context.mutex(&operator, "a");
        let guard = acquire(&context.mutex(&client, "a")).await;
        client.link.delay(SLOW);
        take_away(context, &there, &guard, false).await;
        let error = without_reply(&client, "a", guard.release()).await.expect_err("it was not held until then");
        match error.lost_reason() {
            Some(reason) => assert_eq!(reason, LostReason::Revoked),
            None => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
        }
        client.link.heal();
    }
}

/// Longer than others' requests, and shorter than the timeout.
const SLOW: Duration = Duration::from_millis(600);

async fn take_away(context: &Context, there: &Lock, guard: &Guard, forced: bool) {
    let sequence = guard.token().sequence();
    match forced {
        true => assert!(soon("force", there.force_release(sequence)).await.expect("answered")),
        false => context.remove(&context.queue("a"), sequence).await,
    }
}
