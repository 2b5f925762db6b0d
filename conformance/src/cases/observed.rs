//! NODE-DATA, WATCH-QUEUE, NODE-QUEUES: what others see of a queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use latchwork_core::contracts::{ChangeWatch, Entry, Join, Joined, Leave, MAX_LABEL_BYTES, Node};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, ErrorKind, Kind, QueuePrefix, Result};

use crate::actions::{entries, join_of};
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::testbed::{Client, Fault};
use crate::waits::{soon, within};

async fn join(client: &Client, queue: &Address, claim: Claim, data: &[u8]) -> Arc<dyn Node> {
    let join = Join { data: data.into(), ..join_of(queue, claim) };
    match soon("join", client.coordinator.backend().join(&join)).await.expect("joined") {
        Joined::Admitted(node) | Joined::Waiting(node) => node,
        Joined::Refused => panic!("it may wait"),
    }
}

async fn write(node: &Arc<dyn Node>, data: &[u8]) -> Result<()> {
    soon("write_data", node.write_data(&data.into())).await
}

async fn leave(node: Arc<dyn Node>) {
    assert_eq!(soon("leave", node.leave()).await.expect("left"), Leave::of(true));
}

fn data(entries: &[Entry]) -> Vec<&[u8]> {
    entries.iter().map(|entry| &*entry.data).collect()
}

/// The claims of three nodes that stand in a queue of this kind together.
fn claims(kind: Kind) -> [Claim; 3] {
    match kind {
        Kind::Semaphore => [Claim::Permits(1); 3],
        kind if kind.takes_shared() => [Claim::Shared; 3],
        _ => [Claim::Exclusive; 3],
    }
}

async fn watching(client: &Client, queue: &Address) -> Box<dyn ChangeWatch> {
    let mut watch = client.coordinator.backend().watch_queue(queue);
    soon("watch", watch.changed()).await.expect("watched");
    watch
}

/// Waits for news until the queue's listing is as wanted.
async fn until_it_is(
    watch: &mut Box<dyn ChangeWatch>,
    (client, queue): (&Client, &Address),
    is_it: impl Fn(&[Entry]) -> bool,
) {
    loop {
        watch.changed().await.expect("watched");
        if is_it(&entries(client, queue).await) {
            return;
        }
    }
}

/// The keys of all queues that are listed, in pages.
/// Which queues are listed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Nodes,
    Limits,
}

/// The keys of the queues that have nodes, or limits: those of all pages. Within a page each comes once.
pub(super) async fn listed(
    context: &Context,
    client: &Client,
    what: Of,
    kind: Kind,
    prefix: &str,
    most: usize,
) -> BTreeSet<String> {
    let of = QueuePrefix::new(&context.fixture.config().namespace, kind, prefix).expect("a good prefix");
    let (mut keys, mut after) = (BTreeSet::new(), None);
    loop {
        let (backend, from) = (client.coordinator.backend(), after.as_deref());
        let page = match what {
            Of::Nodes => soon("queues", backend.queues(&of, from, most)).await,
            Of::Limits => soon("limits", backend.limited(&of, from, most)).await,
        };
        let page = page.expect("listed");
        let in_page: BTreeSet<_> = page.queues.iter().map(|queue| queue.name().to_owned()).collect();
        assert_eq!(in_page.len(), page.queues.len(), "twice in one page: {page:?}");
        keys.extend(in_page);
        match page.next {
            Some(next) => after = Some(next),
            None => return keys,
        }
    }
}

cases! {
    "NODE-DATA" =>
    /// a node's data is in the listing from the join on, whatever bytes it has; its owner replaces
    /// it, waiting or admitted, and place, number and label stay
    async fn node_data_is_listed_and_replaced(context) {
        let (one, two) = (context.client().await, context.client().await);
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
                let same = |entry: &Entry| (entry.sequence, entry.claim, entry.admitted, entry.label.clone());
                assert_eq!(same(before), same(after), "{kind:?}");
            }
            for node in nodes {
                leave(node).await;
            }
        }
    }

    "NODE-DATA" =>
    /// data that is written to a node that is gone reaches no other node, also where the request
    /// arrives late; the writer is told that it is lost
    async fn node_data_reaches_no_other_node(context) {
        // No renewal names its node while the write is to be caught.
        let (one, two) = (context.client_with(&context.config(QUIET_TTL)).await, context.client().await);
        let queue = context.queue_of(Kind::Election, "late");
        let node = join(&one, &queue, Claim::Exclusive, b"first").await;
        // Some servers must learn the request first.
        write(&node, b"in time").await.expect("it stands");
        assert!(context.can(Fault::Park));
        let mut late = one.link.park("late");
        let (answer, caught) = tokio::join!(write(&node, b"too late"), soon("catch", late.caught()));
        caught.expect("caught");
        assert_eq!(answer.expect_err("its connection was lost").kind(), ErrorKind::OutcomeUnknown);
        context.fixture.remove(&queue, node.state().sequence()).await.expect("removed");
        let next = join(&two, &queue, Claim::Exclusive, b"second").await;
        soon("deliver", late.deliver()).await;
        assert_eq!(data(&entries(&two, &queue).await), [b"second"]);
        // The client finds its way back first.
        let error = soon("the answer", async {
            loop {
                match write(&node, b"never").await {
                    Err(error) if error.may_pass() => tokio::task::yield_now().await,
                    answer => break answer.expect_err("it was removed"),
                }
            }
        }).await;
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
        assert_eq!(data(&entries(&two, &queue).await), [b"second"]);
        leave(next).await;
    }

    "NODE-DATA" =>
    /// a write whose reply is lost is unknown, or found out, and was made
    async fn node_data_of_a_lost_reply_is_unknown(context) {
        // No renewal names its node while the write is to lose its reply.
        let (one, two) = (context.client_with(&context.config(QUIET_TTL)).await, context.client().await);
        let queue = context.queue_of(Kind::Group, "reply");
        let node = join(&one, &queue, Claim::Shared, b"first").await;
        // Some servers must learn the request first.
        write(&node, b"in time").await.expect("it stands");
        assert!(context.can(Fault::DropReply));
        let mut lost = one.link.drop_reply("reply");
        let (answer, caught) = tokio::join!(write(&node, b"second"), soon("drop", lost.caught()));
        caught.expect("dropped");
        if let Err(error) = answer {
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        }
        assert_eq!(data(&entries(&two, &queue).await), [b"second"]);
        soon("leave", async {
            while let Err(error) = node.leave().await {
                assert!(error.may_pass(), "{error}");
            }
        }).await;
    }

    "WATCH-QUEUE" =>
    /// a watch of a queue tells of nodes that come, leave and are admitted, and of new data
    async fn watch_queue_tells_of_each_change(context) {
        let (one, two) = (context.client().await, context.client().await);
        for kind in [Kind::Election, Kind::Group, Kind::Clients] {
            let queue = context.queue_of(kind, "watched");
            let here = (&two, &queue);
            let mut watch = watching(&two, &queue).await;
            let claim = claims(kind)[0];
            for _ in 0..3 {
                let first = join(&one, &queue, claim, b"first").await;
                soon("the first", until_it_is(&mut watch, here, |all| data(all) == [b"first"])).await;
                let second = join(&one, &queue, claim, b"second").await;
                soon("the second", until_it_is(&mut watch, here, |all| all.len() == 2)).await;
                write(&second, b"changed").await.expect("it stands");
                soon("a change", until_it_is(&mut watch, here, |all| data(all).contains(&&b"changed"[..]))).await;
                leave(first).await;
                let is_admitted = |all: &[Entry]| all.len() == 1 && all[0].admitted;
                soon("an admission", until_it_is(&mut watch, here, is_admitted)).await;
                context.fixture.remove(&queue, second.state().sequence()).await.expect("removed");
                soon("a removal", until_it_is(&mut watch, here, <[Entry]>::is_empty)).await;
            }
        }
    }

    "WATCH-QUEUE" clock =>
    /// the death of a client is told once its node is gone, though nobody else touches the queue
    async fn watch_queue_tells_of_a_death(context) {
        let watcher = context.client().await;
        for kind in [Kind::Election, Kind::Group] {
            let dies = context.doomed().await;
            let queue = context.queue_of(kind, "watched");
            let mut watch = watching(&watcher, &queue).await;
            let _node = join(&dies, &queue, claims(kind)[0], b"").await;
            soon("the join", until_it_is(&mut watch, (&watcher, &queue), |all| all.len() == 1)).await;
            latchwork_core::crash(&dies.coordinator).await;
            context.end_lease(&dies).await;
            let death = until_it_is(&mut watch, (&watcher, &queue), <[Entry]>::is_empty);
            within(context.over(&dies), "the news of the death", death).await;
        }
    }

    "WATCH-QUEUE" =>
    /// what happened while the watcher was cut off is told once it can reach the server again, by
    /// the watch or the next one
    async fn watch_queue_heals_a_gap(context) {
        let (one, two) = (context.client().await, context.mortal().await);
        let queue = context.queue_of(Kind::Group, "watched");
        let mut watch = watching(&two, &queue).await;
        assert!(context.can(Fault::Cut));
        two.link.cut();
        let node = join(&one, &queue, Claim::Shared, b"meanwhile").await;
        tokio::time::sleep(two.ttl() / 4).await;
        two.link.heal();
        soon("news", async {
            loop {
                match watch.changed().await {
                    Ok(()) => {}
                    Err(error) => {
                        assert!(error.may_pass(), "{error}");
                        watch = two.coordinator.backend().watch_queue(&queue);
                        continue;
                    }
                }
                if data(&entries(&one, &queue).await) == [b"meanwhile"] {
                    return;
                }
            }
        }).await;
        drop(watch);
        leave(node).await;
    }

    "WATCH-QUEUE" =>
    /// a watch ends with its client, and a queue of a kind that is not observed is refused
    async fn watch_queue_ends_with_a_reason(context) {
        let client = context.client().await;
        let mut refused = client.coordinator.backend().watch_queue(&context.queue_of(Kind::Mutex, "a"));
        let error = soon("the refusal", refused.changed()).await.expect_err("not observed");
        assert!(matches!(error.kind(), ErrorKind::Unsupported { capability: "watch_queue" }), "{error}");
        let mut watch = watching(&client, &context.queue_of(Kind::Group, "a")).await;
        // It may answer without a change.
        let waiting = tokio::spawn(async move { while watch.changed().await.is_ok() {}; watch.changed().await });
        tokio::task::yield_now().await;
        client.coordinator.close().await.expect("closed");
        let ended = soon("the end", waiting).await.expect("no panic");
        assert_eq!(ended.expect_err("closed").kind(), ErrorKind::Closed);
    }

    "NODE-QUEUES" =>
    /// the queues of a kind that have nodes are listed by the beginning of their keys, in pages, and
    /// no others: not those of another kind or namespace, nor those that were left
    async fn node_queues_are_listed_by_the_beginning_of_their_keys(context) {
        const MANY: usize = 23;
        let client = context.client().await;
        let odd = ["a", "a/", "a/b*c", "a/[b]", "a/b{c}", "b/a", "a%2Fb", "ä/a", ".", "..a"];
        let keys: Vec<_> = odd.into_iter().map(str::to_owned).chain((0..MANY).map(|n| format!("many/{n}"))).collect();
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
        for prefix in ["", "a", "a/", "a/b", "many/", "many/1", "ä", ".", "..", "c", "a/b*", "a/[b"] {
            let expected: BTreeSet<_> = keys.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
            for most in [1, 7, 1000] {
                assert_eq!(listed(context, &client, Of::Nodes, Kind::Mutex, prefix, most).await, expected, "{prefix:?}");
            }
        }
        let others = listed(context, &client, Of::Nodes, Kind::RwLock, "", 10).await;
        assert_eq!(others, BTreeSet::from(["a/other kind".to_owned()]));
        assert_eq!(listed(context, &client, Of::Nodes, Kind::Group, "", 10).await, BTreeSet::new());
        // The waiters first: nobody is admitted on the way.
        for node in nodes.into_iter().rev().chain([other, elsewhere]) {
            leave(node).await;
        }
        assert_eq!(listed(context, &client, Of::Nodes, Kind::Mutex, "", 10).await, BTreeSet::new());
    }
}
