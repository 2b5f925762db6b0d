//! The longest label that there may be.

use latchwork_core::ErrorKind;

use crate::case::cases;
use crate::kit::{acquire, listing, queue_up, soon};

cases! {
    "NODE-LIST" adapted =>
    /// a label of 4 KiB is listed whole for a holder and a waiter, and one that is longer refused by name at connect
    async fn node_list_shows_the_longest_label_whole(scene) {
        let mut config = scene.config(crate::kit::LONG_TTL);
        // Two bytes each, in no coding of a server's own.
        let longest = "ü".repeat(2048);
        config.label = Some(longest.clone());
        let client = scene.client_with(&config).await;
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let waiter = queue_up(&scene.mutex(&client, "a"), 2).await;
        let labels: Vec<_> =
            listing(&scene.mutex(&client, "a")).await.into_iter().map(|entry| entry.label).collect();
        assert!(labels.iter().filter(|label| **label == longest).count() == 2, "{labels:?}");
        guard.release().await.expect("released");
        waiter.guard().await.release().await.expect("released");

        config.label = Some(longest + "x");
        let connectors = scene.bed.connectors();
        let refused = soon("connect", latchwork_core::connect(&connectors, &config)).await.expect_err("refused");
        assert_eq!(*refused.kind(), ErrorKind::InvalidArgument { name: "label" }, "{refused}");
    }
}
