//! What one sees of a client, broken.

use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::backend::{Node, NodeWriter};

use super::states::{States, lost_by_a_task, lost_never};
use super::waits::gone_as_expired;
use super::wrapper::Defect;
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "a_loss_counts_by_another_reason",
        case: "seen_losses_are_counted_by_their_reason",
        beside: "seen_acquisitions_are_counted_by_their_outcome",
        testbed: |name| on_memory(name, States(gone_as_expired)),
    },
    Control {
        name: "a_silence_shows_when_all_is_lost_only",
        case: "seen_outage_is_counted",
        beside: "seen_acquisitions_are_counted_by_their_outcome",
        testbed: |name| on_memory(name, Mute),
    },
    Control {
        name: "a_silence_is_in_the_log_when_all_is_lost_only",
        case: "seen_lease_is_told_in_the_log",
        beside: "seen_acquisitions_are_counted_by_their_outcome",
        testbed: |name| on_memory(name, Mute),
    },
    Control {
        name: "a_healthy_client_says_that_it_is_suspended",
        case: "seen_levels_of_a_healthy_client",
        beside: "seen_acquisitions_are_counted_by_their_outcome",
        testbed: |name| on_memory(name, Flickers),
    },
];

/// No node is suspended, nor that by which the client is registered.
#[derive(Debug)]
struct Mute;

#[async_trait]
impl Defect for Mute {
    fn breaks_connecting(&self) -> bool {
        true
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some(lost_by_a_task(node))
    }
}

/// Each node begins suspended.
#[derive(Debug)]
struct Flickers;

#[async_trait]
impl Defect for Flickers {
    fn breaks_connecting(&self) -> bool {
        true
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        let own = lost_never(node);
        own.lease_writer().suspend();
        Some(own)
    }
}
