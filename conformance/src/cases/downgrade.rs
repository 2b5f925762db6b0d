//! The RwLock: downgrades and owners.

use std::sync::Arc;

use futures_util::FutureExt;
use latchwork_core::backend::{EntryPage, Node, QueueEntry};
use latchwork_core::recipes::RwLock;
use latchwork_core::{Claim, Ended, ErrorKind, Kind, LostReason, Owner};

use tokio::task::JoinHandle;

use super::rwlock::{reading, rwlock, writing};
use crate::actions::{
    self, caught, enters, in_the_end, in_turn, join_of, leave, leave_all, leave_in_the_end, promptly,
    release, release_all, settle, still_waits, tries, without_reply,
};
use crate::bounds::CLEAN_UP;
use crate::case::cases;
use crate::errors::{fails, is_lost};
use crate::waits::{after_polls, soon, until, within};

async fn entries(lock: &RwLock) -> Vec<QueueEntry> {
    soon("list", lock.queue().first(100)).await.expect("listed")
}

async fn downgrade(node: &Arc<dyn Node>) {
    soon("downgrade", node.downgrade()).await.expect("downgraded");
}

cases! {
    "RWLOCK-DOWNGRADE" =>
    /// W R W R: the first writer becomes a reader in its place, with its token, and admits the readers before the next
    /// writer
    async fn rwlock_downgrade_keeps_place_and_token(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let writer = soon("write", here.write()).await.expect("acquired");
        let token = writer.token();
        let second = reading(&there, 2).await;
        let third = writing(&here, 3).await;
        let fourth = reading(&there, 4).await;
        let reader = soon("downgrade", writer.downgrade()).await.expect("downgraded");
        assert_eq!(reader.sequence(), token.sequence(), "the downgraded writer must keep its place");
        let second = second.guard().await;
        assert!(reader.is_held() && !third.is_finished() && !fourth.is_finished(), "a reader was admitted past the next writer");
        let listed = entries(&there).await;
        let claims: Vec<_> = listed.iter().map(|entry| (entry.claim, entry.admitted)).collect();
        assert_eq!(
            claims,
            [(Claim::Shared, true), (Claim::Shared, true), (Claim::Exclusive, false), (Claim::Shared, false)]
        );
        assert_eq!(listed[0].sequence, token.sequence(), "the downgraded writer must keep its place");
        let after = token.sequence().to_string();
        let behind = soon("list", there.queue().page(Some(&after), 100)).await.expect("listed");
        assert_eq!(behind.items.len(), 3, "the next page must start after the downgraded writer");
        second.release().await.expect("released");
        assert!(!third.is_finished(), "a writer was admitted while the downgraded writer reads");
        reader.release().await.expect("released");
        let third = third.guard().await;
        assert!(third.token() > token);
        third.release().await.expect("released");
        release(fourth.guard().await).await;
    }

    "RWLOCK-DOWNGRADE" =>
    /// an event admits the readers before the next writer, few or many, and no other waiter; a repeated downgrade does
    /// nothing; a later client finds a reader in that place
    async fn rwlock_downgrade_lets_in_readers_and_no_writer(context) {
        let (one, two) = (context.quiet().await, context.quiet().await);
        for readers in [1, 24] {
            let queue = context.queue_of(Kind::RwLock, &format!("behind-{readers}"));
            let (reads, writes) = (join_of(&queue, Claim::Shared), join_of(&queue, Claim::Exclusive));
            let (_, writer) = enters(&one, &queue, Claim::Exclusive).await;
            let first = in_turn((0..readers).map(async |_| enters(&two, &queue, Claim::Shared).await.1)).await;
            let (_, second) = enters(&two, &queue, Claim::Exclusive).await;
            let (_, last) = enters(&one, &queue, Claim::Shared).await;
            assert!(still_waits(&two, &first[0]).await && still_waits(&one, &last).await);
            downgrade(&writer).await;
            for node in &first {
                promptly(node).await;
            }
            downgrade(&writer).await;
            assert!(still_waits(&two, &second).await && still_waits(&one, &last).await, "a reader was admitted past the next writer");
            let mut expected = vec![(writer.state().sequence(), Claim::Shared, true)];
            expected.extend(first.iter().map(|node| (node.state().sequence(), Claim::Shared, true)));
            expected.push((second.state().sequence(), Claim::Exclusive, false));
            expected.push((last.state().sequence(), Claim::Shared, false));
            let listed = actions::entries(&two, &queue).await;
            let shown = |entry: &QueueEntry| (entry.sequence, entry.claim, entry.admitted);
            assert_eq!(listed.iter().map(shown).collect::<Vec<_>>(), expected, "in its place");
            assert!(listed.iter().all(|entry| entry.label == "conformance"), "{listed:?}");
            let mut after = 0;
            for expected in &expected[..2] {
                let page = soon("list", two.coordinator.backend().list(&queue, EntryPage::new(after, 1))).await;
                assert_eq!(page.expect("listed").iter().map(shown).collect::<Vec<_>>(), [*expected]);
                after = expected.0;
            }
            leave_all(&first).await;
            assert!(still_waits(&two, &second).await, "the downgraded writer still reads");
            leave(&writer).await;
            promptly(&second).await;
            assert!(still_waits(&one, &last).await, "beside a writer");
            downgrade(&second).await;
            promptly(&last).await;
            assert!(tries(&one, &writes).await.is_none(), "beside readers");
            let beside = tries(&two, &reads).await.expect("readers share");
            leave_all([&beside, &second, &last]).await;
            assert_eq!(actions::entries(&one, &queue).await, []);
        }
    }

    "RWLOCK-DOWNGRADE" =>
    /// a downgrade without its node is an error and creates nothing: after a leave, after a removal, as a late request,
    /// and at the same time as a leave
    async fn rwlock_downgrade_without_a_node_makes_nothing(context) {
        let (one, two) = (context.quiet().await, context.client().await);
        for how in ["left-late", "left-unanswered", "left-beside", "left-before", "removed-late", "removed"] {
            let queue = context.queue_of(Kind::RwLock, how);
            let (_, writer) = enters(&one, &queue, Claim::Exclusive).await;
            let (_, next) = enters(&two, &queue, Claim::Exclusive).await;
            let mut late = how.ends_with("late").then(|| one.link.park(how));
            let mut lost = how.ends_with("unanswered").then(|| one.link.drop_reply(how));
            if let Some(fault) = late.as_mut().or(lost.as_mut()) {
                fails(caught(&mut **fault, writer.downgrade()).await, ErrorKind::OutcomeUnknown, "no answer");
            }
            match how {
                "left-beside" => _ = tokio::join!(biased; writer.downgrade(), leave_in_the_end(&writer)),
                "left-before" => _ = tokio::join!(biased; leave_in_the_end(&writer), writer.downgrade()),
                "removed-late" | "removed" => context.remove(&queue, writer.state().sequence()).await,
                _ => leave_in_the_end(&writer).await,
            }
            if let Some(late) = late {
                soon("deliver", late.deliver()).await;
            }
            let again = in_the_end(|| writer.downgrade()).await.expect_err("it is gone");
            assert!(matches!(again.kind(), ErrorKind::NotHeld | ErrorKind::Lost(_)), "{how}: {again}");
            if how.starts_with("removed") {
                assert_eq!(again.lost_reason(), Some(LostReason::Revoked), "{again}");
                assert_eq!(soon("the loss", writer.state().until_lost()).await, LostReason::Revoked);
            } else {
                assert_eq!(writer.state().lost(), None, "{how}: a downgrade must not be reported as a removal");
            }
            soon("the next", next.admitted()).await.expect("admitted");
            let left = actions::entries(&two, &queue).await;
            let left: Vec<_> = left.iter().map(|entry| (entry.sequence, entry.claim)).collect();
            assert_eq!(left, [(next.state().sequence(), Claim::Exclusive)], "{how}");
            leave(&next).await;
        }
        assert_eq!(one.coordinator.lease().lost(), None);
    }

    "RWLOCK-DOWNGRADE" =>
    /// a downgrade is not reported as a removal, and a later removal is, also for a writer that had to wait
    async fn rwlock_downgrade_is_not_reported_as_a_removal(context) {
        let (one, two) = (context.quiet().await, context.client().await);
        let queue = context.queue_of(Kind::RwLock, "a");
        for has_waited in [false, true] {
            let (_, first) = enters(&two, &queue, Claim::Exclusive).await;
            if !has_waited {
                leave(&first).await;
            }
            let (_, node) = enters(&one, &queue, Claim::Exclusive).await;
            if has_waited {
                assert!(still_waits(&one, &node).await);
                leave(&first).await;
                promptly(&node).await;
            }
            downgrade(&node).await;
            settle(&one).await;
            assert_eq!(node.state().lost(), None);
            context.remove(&queue, node.state().sequence()).await;
            if one.coordinator.capabilities().prompt_revocation {
                assert_eq!(within(CLEAN_UP, "the loss", node.state().until_lost()).await, LostReason::Revoked);
            }
            is_lost(soon("downgrade", node.downgrade()).await, LostReason::Revoked);
            assert_eq!(one.coordinator.lease().lost(), None);
        }
    }

    "RWLOCK-DOWNGRADE" =>
    /// a downgrade whose reply is lost is repeated and has one effect; a later removal of the node is reported
    async fn rwlock_downgrade_survives_a_lost_reply(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let writer = soon("write", here.write()).await.expect("acquired");
        let token = writer.token();
        let reader = without_reply(&one, "a", writer.downgrade()).await.expect("downgraded");
        let beside = soon("read", there.read()).await.expect("acquired");
        assert!(reader.is_held() && beside.is_held());
        assert_eq!(entries(&there).await.len(), 2);
        let sequence = entries(&there).await[0].sequence;
        assert_eq!(sequence, token.sequence());
        context.remove(&context.queue_of(Kind::RwLock, "a"), sequence).await;
        assert_eq!(within(one.ttl() + context.late(), "the loss", reader.lost()).await, Ended::Lost(LostReason::Revoked));
        assert!(beside.is_held());
        beside.release().await.expect("released");
    }

    "RWLOCK-DOWNGRADE" =>
    /// a downgrade that is dropped at any await releases the lock; a downgrade of a lost or released hold is an error
    async fn rwlock_downgrade_can_be_dropped(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        for polls in 1..6 {
            let writer = soon("write", here.write()).await.expect("acquired");
            let turned = after_polls(polls, writer.downgrade()).await;
            drop(turned.map(|turned| turned.expect("downgraded")));
            // Leftovers may stay until their removal arrives.
            until("it is free again", || async {
                match soon("try", there.try_write()).await.expect("answered") {
                    Some(free) => free.release().await.is_ok(),
                    None => false,
                }
            })
            .await;
        }
        let writer = soon("write", here.write()).await.expect("acquired");
        writer.release().await.expect("released");
        let error = soon("downgrade", writer.downgrade()).await.expect_err("released");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NotHeld, Some("downgrade")), "{error}");
    }

    "RWLOCK-OWNER" =>
    /// a call without an owner never re-enters: five writers are admitted one by one; a call with the holding owner
    /// re-enters
    async fn rwlock_owner_that_no_call_names_is_excluded(context) {
        let client = context.client().await;
        let (lock, owner) = (rwlock(&client, "a"), Owner::new("one"));
        let write = || tokio::spawn(lock.write());
        let mut held = soon("write", lock.write()).await.expect("acquired");
        let mut waiting: Vec<_> = (0..4).map(|_| write()).collect();
        let let_in = |waiting: &[JoinHandle<_>]| waiting.iter().filter(|task| task.is_finished()).count();
        until("the other clients wait or are admitted", || async {
            let_in(&waiting) > 0 || entries(&lock).await.len() == 5
        })
        .await;
        while !waiting.is_empty() {
            assert_eq!(let_in(&waiting), 0, "a writer was admitted while another writer held");
            assert!(soon("try", lock.try_read()).await.expect("answered").is_none(), "beside a writer");
            held.release().await.expect("released");
            // A server may reorder one client's requests.
            let (next, _, others) = soon("the next", futures_util::future::select_all(waiting)).await;
            (held, waiting) = (next.expect("no panic").expect("acquired"), others);
        }
        held.release().await.expect("released");
        // The control: the same holds with a named owner.
        let held = soon("write", lock.write().by(&owner)).await.expect("acquired");
        let again = soon("write", lock.write().by(&owner)).await.expect("acquired again");
        assert_eq!((again.token(), entries(&lock).await.len()), (held.token(), 1));
        release_all([again, held]).await;
    }

    "RWLOCK-OWNER" =>
    /// an owner reads again past a waiting writer, and a reader that asks to write gets an error,
    /// not a deadlock
    async fn rwlock_owner_that_reads_may_not_write(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let (owner, other) = (Owner::new("one"), Owner::new("other"));
        let reader = soon("read", here.read().by(&owner)).await.expect("acquired");
        assert_eq!(entries(&there).await[0].label, "one");
        let writer = writing(&there, 2).await;
        assert!(soon("try", here.try_read().by(&other)).await.expect("answered").is_none(), "another owner waits");
        one.link.cut();
        let again = here.read().by(&owner).now_or_never().expect("no request").expect("it reads already");
        assert_eq!(again.sequence(), reader.sequence());
        let answer = here.write().by(&owner).now_or_never().expect("no request");
        let refused = answer.expect_err("a reader that asks to write must get an error");
        assert_eq!((refused.kind(), refused.key()), (ErrorKind::Deadlock, Some("a")), "{refused}");
        reader.release().await.expect("no request");
        one.link.heal();
        assert!(again.is_held() && reader.check().is_err());
        again.release().await.expect("released");
        let writer = writer.guard().await;
        writer.release().await.expect("released");
        release(soon("write", here.write().by(&owner)).await.expect("nothing is read any more")).await;
    }

    "RWLOCK-OWNER" =>
    /// an owner that writes may write and read without a request; after its last write guard, the node is a reader
    async fn rwlock_owner_that_writes_may_read_and_keeps_that(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let owner = Owner::new("one");
        for released in [true, false] {
            let outer = soon("write", here.write().by(&owner)).await.expect("acquired");
            one.link.cut();
            let inner = here.write().by(&owner).now_or_never().expect("no request").expect("it writes already");
            let nested = here.read().by(&owner).now_or_never().expect("no request").expect("it writes already");
            assert_eq!((inner.token(), nested.sequence()), (outer.token(), outer.token().sequence()));
            let turned = inner.downgrade().now_or_never().expect("no request").expect("another writes on");
            one.link.heal();
            let waiting = reading(&there, 2).await;
            assert!(!waiting.is_finished(), "beside a writer");
            match released {
                true => outer.release().await.expect("released"),
                false => drop(outer),
            }
            let beside = waiting.guard().await;
            assert!(nested.is_held() && turned.is_held());
            assert!(soon("try", there.try_write()).await.expect("answered").is_none(), "two still read");
            release_all([nested, turned, beside]).await;
            until("nothing is left", || async { entries(&there).await.is_empty() }).await;
        }
    }
}
