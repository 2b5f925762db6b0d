//! NODE-DATA, NODE-QUEUES: queues seen by other clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::key_pages::{are_listed_by_their_beginning, keys, listed};
use crate::actions::{
    caught, close, enters_by, entries, in_the_end, join_of, leave_in_the_end, promptly, still_waits,
    without_reply,
};
use crate::case::cases;
use crate::errors::fails;
use crate::testbed::{Client, Fault};
use crate::waits::soon;
use latchwork_core::backend::{ChangeWatch, Join, KeysWith, Leave, MAX_LABEL_BYTES, Node, QueueEntry};
use latchwork_core::{Address, Claim, ErrorKind, Kind, LostReason, Result};

pub(super) async fn join(client: &Client, queue: &Address, claim: Claim, data: &[u8]) -> Arc<dyn Node> {
    enters_by(client, &Join { data: data.into(), ..join_of(queue, claim) }).await.1
}

pub(super) async fn write(node: &Arc<dyn Node>, data: &[u8]) -> Result<()> {
    soon("write_data", node.write_data(&data.into())).await
}

pub(super) async fn leave(node: Arc<dyn Node>) {
    assert_eq!(soon("leave", node.leave()).await.expect("left"), Leave::of(true));
}

pub(super) fn data(entries: &[QueueEntry]) -> Vec<&[u8]> {
    entries.iter().map(|entry| &*entry.data).collect()
}

/// Claims of which three may be in a queue.
pub(super) fn claims(kind: Kind) -> [Claim; 3] {
    match kind {
        Kind::Semaphore => [Claim::Permits(1); 3],
        kind if kind.takes_shared() => [Claim::Shared; 3],
        _ => [Claim::Exclusive; 3],
    }
}

pub(super) async fn watching(client: &Client, queue: &Address) -> Box<dyn ChangeWatch> {
    let mut watch = client.coordinator.backend().watch_queue(queue);
    soon("watch", watch.changed()).await.expect("watched");
    watch
}

pub(super) async fn until_it_is(
    watch: &mut Box<dyn ChangeWatch>,
    (client, queue): (&Client, &Address),
    is_it: impl Fn(&[QueueEntry]) -> bool,
) {
    loop {
        watch.changed().await.expect("watched");
        if is_it(&entries(client, queue).await) {
            return;
        }
    }
}

cases! {
    "NODE-DATA" =>
    /// a node's data is listed from the join on, with any bytes; its owner replaces the data, waiting or admitted, and
    /// place, number and label stay
    async fn node_data_is_listed_and_replaced(context) {
        let [one, two] = context.clients().await;
        for kind in [Kind::Election, Kind::Group, Kind::Mutex, Kind::Semaphore] {
            let queue = context.queue_of(kind, "data");
            let whole: Vec<u8> = (0..=255).cycle().take(MAX_LABEL_BYTES).collect();
            let mut nodes = Vec::new();
            for (claim, first) in claims(kind).into_iter().zip([&b"first"[..], b"", &whole]) {
                nodes.push(join(&one, &queue, claim, first).await);
            }
            let before = entries(&two, &queue).await;
            assert_eq!(data(&before), [&b"first"[..], b"", &whole], "{kind:?}");
            for (node, next) in nodes.iter().zip([&b"a\nb c\0 "[..], &whole, b""]) {
                write(node, next).await.expect("it stands");
            }
            let after = entries(&two, &queue).await;
            assert_eq!(data(&after), [&b"a\nb c\0 "[..], &whole, b""], "{kind:?}");
            for (before, after) in before.iter().zip(&after) {
                let same = |entry: &QueueEntry| (entry.sequence, entry.claim, entry.admitted, entry.label.clone());
                assert_eq!(same(before), same(after), "{kind:?}");
            }
            for node in nodes {
                leave(node).await;
            }
        }
    }

    "NODE-DATA" =>
    /// data for a node that is gone reaches no other node, also if the request arrives late; the writer gets the loss
    async fn node_data_reaches_no_other_node(context) {
        // No renewal may name its node.
        let (one, two) = (context.quiet().await, context.client().await);
        let queue = context.queue_of(Kind::Election, "late");
        let node = join(&one, &queue, Claim::Exclusive, b"first").await;
        write(&node, b"in time").await.expect("it stands");
        assert!(context.can(Fault::Park));
        let mut late = one.link.park("late");
        one.link.refuse();
        fails(caught(&mut *late, write(&node, b"too late")).await, ErrorKind::OutcomeUnknown, "its connection was lost");
        context.remove(&queue, node.state().sequence()).await;
        let next = join(&two, &queue, Claim::Exclusive, b"second").await;
        soon("deliver", late.deliver()).await;
        assert_eq!(data(&entries(&two, &queue).await), [b"second"]);
        one.link.heal();
        let error = in_the_end(|| write(&node, b"never")).await.expect_err("it was removed");
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
        assert_eq!(data(&entries(&two, &queue).await), [b"second"]);
        soon("leave", next.leave()).await.expect("left");
        let error = write(&next, b"never").await.expect_err("it has left");
        assert!(matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost(_)), "{error}");
        let last = join(&two, &queue, Claim::Exclusive, b"last").await;
        close(&two).await;
        let error = write(&last, b"never").await.expect_err("its client has closed");
        let is_closed = error.kind() == ErrorKind::Closed || error.lost_reason() == Some(LostReason::Closed);
        assert!(is_closed, "{error}");
        assert_eq!(entries(&one, &queue).await, []);
    }

    "NODE-DATA" =>
    /// new data admits no waiter of any kind; a leave and a downgrade do, and keep the data
    async fn node_data_admits_no_waiter(context) {
        let (one, two) = (context.quiet().await, context.quiet().await);
        let election = context.queue_of(Kind::Election, "data");
        let mut watch = watching(&two, &election).await;
        let leader = join(&one, &election, Claim::Exclusive, b"leads").await;
        let follower = join(&two, &election, Claim::Exclusive, b"follows").await;
        let last = join(&one, &election, Claim::Exclusive, b"is last").await;
        for round in 0..20 {
            write(&leader, format!("leads {round}").as_bytes()).await.expect("it stands");
            write(&last, format!("waits {round}").as_bytes()).await.expect("it stands");
            assert!(round % 10 > 0 || still_waits(&two, &follower).await, "{round}");
        }
        assert!(still_waits(&two, &follower).await && still_waits(&one, &last).await);
        for (leaves, next) in [(leader, &follower), (Arc::clone(&follower), &last)] {
            leave(leaves).await;
            promptly(next).await;
        }
        leave(last).await;
        soon("the end", until_it_is(&mut watch, (&two, &election), <[QueueEntry]>::is_empty)).await;

        let permits = context.queue_of(Kind::Semaphore, "data");
        let [a, b, c, d] = [&b"a"[..], b"b", b"\0admitted", b"d"].map(|data| join(&one, &permits, Claim::Permits(1), data));
        let [a, b, c, d] = [a.await, b.await, c.await, d.await];
        write(&c, b"c waits").await.expect("it stands");
        write(&d, b"\0admitted").await.expect("it stands");
        assert!(still_waits(&one, &c).await && still_waits(&one, &d).await);
        let shown = async |queue: &Address| -> Vec<(Vec<u8>, bool)> {
            entries(&two, queue).await.iter().map(|entry| (entry.data.to_vec(), entry.admitted)).collect()
        };
        let as_it_is = |shown: &[(&[u8], bool)]| -> Vec<_> { shown.iter().map(|(data, is)| (data.to_vec(), *is)).collect() };
        let expected = [(&b"a"[..], true), (b"b", true), (b"c waits", false), (b"\0admitted", false)];
        assert_eq!(shown(&permits).await, as_it_is(&expected));
        leave(a).await;
        promptly(&c).await;
        assert_eq!(shown(&permits).await[1], (b"c waits".to_vec(), true));
        write(&c, b"c").await.expect("it stands");
        assert!(still_waits(&one, &d).await, "new data of a holder frees no permit");
        assert_eq!(shown(&permits).await, as_it_is(&[(b"b", true), (b"c", true), (b"\0admitted", false)]));
        leave(b).await;
        promptly(&d).await;
        leave(c).await;
        leave(d).await;

        let readers = context.queue_of(Kind::RwLock, "data");
        let writer = join(&one, &readers, Claim::Exclusive, b"writer").await;
        let reader = join(&two, &readers, Claim::Shared, b"").await;
        let before = entries(&two, &readers).await[0].clone();
        write(&writer, b"still a writer").await.expect("it stands");
        write(&reader, b"reader").await.expect("it stands");
        assert!(still_waits(&two, &reader).await);
        assert_eq!(shown(&readers).await, as_it_is(&[(b"still a writer", true), (b"reader", false)]));
        soon("downgrade", writer.downgrade()).await.expect("downgraded");
        promptly(&reader).await;
        assert_eq!(shown(&readers).await, as_it_is(&[(b"still a writer", true), (b"reader", true)]));
        write(&writer, b"a reader by now").await.expect("it stands");
        soon("downgrade", writer.downgrade()).await.expect("it is one already");
        let after = entries(&two, &readers).await[0].clone();
        assert_eq!(*after.data, *b"a reader by now");
        assert_eq!((after.sequence, after.claim, after.label), (before.sequence, Claim::Shared, before.label));
        leave(writer).await;
        leave(reader).await;
    }

    "NODE-DATA" =>
    /// a write of data whose reply is lost is unknown, or its outcome is found out; it was made
    async fn node_data_of_a_lost_reply_is_unknown(context) {
        let (one, two) = (context.quiet().await, context.client().await);
        let queue = context.queue_of(Kind::Group, "reply");
        let node = join(&one, &queue, Claim::Shared, b"first").await;
        write(&node, b"in time").await.expect("it stands");
        assert!(context.can(Fault::DropReply));
        if let Err(error) = without_reply(&one, "reply", write(&node, b"second")).await {
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        }
        assert_eq!(data(&entries(&two, &queue).await), [b"second"]);
        leave_in_the_end(&node).await;
    }

    "NODE-QUEUES" =>
    /// the queues of a kind with nodes are listed by a prefix of their keys, in pages, without other kinds, namespaces
    /// or empty queues
    async fn node_queues_are_listed_by_the_beginning_of_their_keys(context) {
        let client = context.client().await;
        let odd = ["a", "a/", "a/b*c", "a/[b]", "a/b{c}", "b/a", "a%2Fb", "ä/a", ".", "..a"];
        let keys = keys(&odd, 23);
        let mut nodes = Vec::new();
        for key in &keys {
            for _ in 0..2 {
                nodes.push(join(&client, &context.queue_of(Kind::Mutex, key), Claim::Exclusive, b"").await);
            }
        }
        let other = join(&client, &context.queue_of(Kind::RwLock, "a/other kind"), Claim::Shared, b"").await;
        let namespace = format!("{}-2", context.fixture.config().namespace);
        let elsewhere = Address::new(&namespace, Kind::Mutex, "a/elsewhere").expect("a good key");
        let elsewhere = join(&client, &elsewhere, Claim::Exclusive, b"").await;
        leave(join(&client, &context.queue_of(Kind::Mutex, "a/left"), Claim::Exclusive, b"").await).await;
        let mutexes = (KeysWith::Nodes, Kind::Mutex);
        are_listed_by_their_beginning(context, &client, mutexes, &keys).await;
        let others = listed(context, &client, (KeysWith::Nodes, Kind::RwLock), "", 10).await;
        assert_eq!(others.into_keys().collect::<Vec<_>>(), ["a/other kind"]);
        assert_eq!(listed(context, &client, (KeysWith::Nodes, Kind::Group), "", 10).await, BTreeMap::new());
        for node in nodes.into_iter().rev().chain([other, elsewhere]) {
            leave(node).await;
        }
        assert_eq!(listed(context, &client, mutexes, "", 10).await, BTreeMap::new());
    }
}
