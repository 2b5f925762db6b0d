//! NODE-: removed, listed and foreign entries.

use latchwork_core::backend::EntryPage;
use latchwork_core::{Ended, LostReason};

use crate::actions::{acquire, acquire_and_release, listing, queue_up, release, try_acquire};
use crate::bounds::{CLEAN_UP, LONG_TTL, QUIET_TTL, ROUNDED};
use crate::case::cases;
use crate::errors::is_lost;
use crate::testbed::Fault;
use crate::waits::{is_live, within};

cases! {
    "NODE-GONE" adapted clock =>
    /// a holder whose node is removed on the server gets `Revoked` within one TTL; its lease may stay live
    async fn node_gone_a_holder_hears_it(context) {
        let [client, other] = context.clients().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let second = acquire(&context.mutex(&client, "b")).await;
        context.remove(&context.queue("a"), guard.token().sequence()).await;
        context.passes(&client, client.ttl() / 3);
        let lost = within(client.ttl() + context.late(), "the loss", guard.lost()).await;
        assert_eq!(lost, Ended::Lost(LostReason::Revoked));
        is_lost(guard.check(), LostReason::Revoked);
        assert!(second.is_held(), "only that hold is lost");
        is_live(&client.coordinator).await;
        acquire_and_release(&context.mutex(&other, "a")).await;
        second.release().await.expect("released");
    }

    "NODE-GONE" adapted =>
    /// a waiter whose node is removed on the server gets `Revoked` within one TTL
    async fn node_gone_a_waiter_hears_it(context) {
        let [holder, client] = context.clients().await;
        let guard = acquire(&context.mutex(&holder, "a")).await;
        let waiter = queue_up(&context.mutex(&client, "a"), 2).await;
        let node = listing(&context.mutex(&holder, "a")).await[1].sequence;
        context.remove(&context.queue("a"), node).await;
        context.passes(&client, client.ttl() / 3);
        is_lost(within(client.ttl() + context.late(), "the loss", waiter.outcome()).await, LostReason::Revoked);
        guard.release().await.expect("released");
    }

    "NODE-GONE" adapted =>
    /// a removal is reported at once if the backend promises it, and otherwise within one TTL
    async fn node_gone_is_reported_as_promptly_as_promised(context) {
        let ttl = if context.testbed.capabilities().prompt_revocation { QUIET_TTL } else { LONG_TTL };
        let client = context.client_with(&context.config(ttl)).await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let bound = match client.coordinator.capabilities().prompt_revocation {
            // Before the first renewal.
            true => CLEAN_UP,
            false => client.ttl() + context.late(),
        };
        context.remove(&context.queue("a"), guard.token().sequence()).await;
        if !client.coordinator.capabilities().prompt_revocation {
            context.passes(&client, client.ttl() / 3);
        }
        let lost = within(bound, "the loss", guard.lost()).await;
        assert_eq!(lost, Ended::Lost(LostReason::Revoked));
        is_lost(guard.release().await, LostReason::Revoked);
    }

    "NODE-FOREIGN" adapted =>
    /// a foreign entry in the queue does no harm
    async fn node_foreign_entries_do_no_harm(context) {
        let [client, other] = context.clients().await;
        let queue = context.queue("a");
        let guard = acquire(&context.mutex(&client, "a")).await;
        let planted = context.fixture.plant(&queue).await;
        assert_eq!(planted.is_ok(), context.can(Fault::Plant), "Fixture::can must match the fixture: {planted:?}");
        if planted.is_err() {
            context.leave_out("the fixture cannot plant foreign entries");
        }
        let waiter = queue_up(&context.mutex(&other, "a"), 2).await;
        guard.release().await.expect("released");
        let next = waiter.guard().await;
        assert!(try_acquire(&context.mutex(&client, "a")).await.is_none());
        next.release().await.expect("released");
    }

    "NODE-LIST" adapted =>
    /// holders and waiters are listed in order with label, rule and sequence, page by page
    async fn node_list_in_order_and_paged(context) {
        let client = context.client_by(LONG_TTL, |config| config.label = Some("an-owner".to_owned())).await;
        let other = context.client().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let first = queue_up(&context.mutex(&other, "a"), 2).await;
        let second = queue_up(&context.mutex(&other, "a"), 3).await;
        let all = listing(&context.mutex(&other, "a")).await;
        assert_eq!(all.iter().map(|entry| entry.admitted).collect::<Vec<_>>(), [true, false, false]);
        assert!(all.is_sorted_by(|a, b| a.sequence < b.sequence), "{all:?}");
        assert_eq!(all[0].sequence, guard.token().sequence());
        assert_eq!((all[0].label.as_str(), all[0].claim), ("an-owner", context.adapter.claim()));
        assert_eq!(all[1].label, other.coordinator.label());
        let queue = context.queue("a");
        let page = EntryPage::new(all[0].sequence, 1);
        let page = other.coordinator.backend().list(&queue, page).await.expect("listed");
        assert_eq!(page.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [all[1].sequence]);
        drop((first, second));
        guard.release().await.expect("released");
    }

    "NODE-LIST" adapted clock =>
    /// a listing shows the remaining time of a holder's lease: at least the time that its owner assumes, and the next
    /// client holds after it; nothing if the server does not report it
    async fn node_list_shows_the_remaining_lease_time(context) {
        let (client, other) = (context.doomed().await, context.client().await);
        let (clock, queue) = (other.coordinator.lease().clock().clone(), context.queue("a"));
        let guard = acquire(&context.mutex(&client, "a")).await;
        let list = async |page| other.coordinator.backend().list(&queue, page).await.expect("listed");
        let unasked = list(EntryPage::new(0, 9)).await;
        let is_none = unasked.iter().all(|entry| entry.lease_left.is_none());
        assert!(is_none, "a listing must not read the remaining time unless it is asked for: {unasked:?}");
        let waiter = queue_up(&context.mutex(&other, "a"), 2).await;
        latchwork_core::crash(&client.coordinator).await;
        let counted = guard.remaining();
        let before = clock.now();
        let listed = list(EntryPage::new(0, 9).with_leases()).await;
        let after = clock.now();
        if other.coordinator.capabilities().lease_left {
            let held = listed.iter().find(|entry| entry.sequence == guard.token().sequence()).expect("it holds");
            let left = held.lease_left.expect("the server tells");
            assert!(left <= client.ttl(), "{left:?} of {:?}", client.ttl());
            let least = counted.saturating_sub(after.since(before));
            assert!(left + ROUNDED >= least, "the listing shows {left:?}, less than the {counted:?} that the owner assumes");
            context.end_lease(&client).await;
            let next = within(context.over(&client), "the next admission", waiter.guard()).await;
            let took = clock.now().since(before);
            let bound = left + ROUNDED + after.since(before) + context.fixture.expiry_bound() + context.late();
            let is_kept = context.keeps_time();
            assert!(
                !is_kept || took >= left && took <= bound,
                "the next client held after {took:?}, although the listing showed {left:?}"
            );
            next.release().await.expect("released");
        } else {
            let is_none = listed.iter().all(|entry| entry.lease_left.is_none());
            assert!(is_none, "the backend has no capability `lease_left`: {listed:?}");
            context.end_lease(&client).await;
            release(within(context.over(&client), "the next admission", waiter.guard()).await).await;
        }
    }
}
