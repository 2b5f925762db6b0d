//! NODE-LIST: long and bad labels.

use latchwork_core::ErrorKind;
use latchwork_core::backend::{Join, MAX_LABEL_BYTES};

use crate::actions::{acquire, enters_by, entries, join_of, leave, listing, queue_up, release};
use crate::bounds::LONG_TTL;
use crate::case::cases;
use crate::waits::soon;

cases! {
    "NODE-LIST" adapted =>
    /// a label of 4 KiB is listed whole for a holder and a waiter, and a longer one is refused by name at the connect
    async fn node_list_shows_the_longest_label_whole(context) {
        let mut config = context.config(LONG_TTL);
        let longest = "ü".repeat(2048);
        config.label = Some(longest.clone());
        let client = context.client_with(&config).await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let waiter = queue_up(&context.mutex(&client, "a"), 2).await;
        let listed = listing(&context.mutex(&client, "a")).await;
        assert_eq!(listed.iter().filter(|entry| entry.label == longest).count(), 2, "{listed:?}");
        guard.release().await.expect("released");
        release(waiter.guard().await).await;

        config.label = Some(longest + "x");
        let connectors = context.testbed.connectors();
        let refused = soon("connect", latchwork_core::connect(&connectors, &config)).await.expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument { name: "label" }, "{refused}");
    }

    "NODE-LIST" adapted =>
    /// a label that a client wrote without checks is listed cut and escaped, so that it cannot control a terminal
    async fn node_list_cuts_and_escapes_foreign_labels(context) {
        let client = context.client().await;
        context.take_others("a").await;
        let queue = context.queue("a");
        let join = Join {
            limit: context.adapter.limit(),
            label: format!("someone\u{1b}[2J\u{202e}{}", "x".repeat(100_000)).into(),
            ..join_of(&queue, context.adapter.claim())
        };
        let (is_admitted, node) = enters_by(&client, &join).await;
        assert!(is_admitted, "the queue is free");
        let sequence = node.state().sequence();
        let listed = entries(&client, &queue).await;
        let own = listed.iter().find(|entry| entry.sequence == sequence).expect("it is listed");
        assert!(own.label.starts_with("someone"), "{:?}", own.label);
        assert!(own.label.len() <= MAX_LABEL_BYTES, "a label of {} bytes", own.label.len());
        assert!(!own.label.contains(|c: char| c.is_control() || c == '\u{202e}'), "{:?}", own.label);
        leave(&node).await;
    }
}
