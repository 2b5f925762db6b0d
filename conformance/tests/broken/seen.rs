//! SEEN-.

use std::sync::Arc;

use super::states::{States, lost_by_a_task, suspended};
use super::waits::gone_as_expired;
use super::{Control, broken, broken_everywhere};

pub(super) const CONTROLS: &[Control] = &[
    broken("a_loss_counts_by_another_reason", || Arc::new(States(gone_as_expired)))
        .fails("seen_losses_are_counted_by_their_reason")
        .passes("seen_acquisitions_are_counted_by_their_outcome"),
    broken_everywhere("a_silence_shows_when_all_is_lost_only", || Arc::new(States(lost_by_a_task)))
        .fails("seen_outage_is_counted")
        .passes("seen_acquisitions_are_counted_by_their_outcome"),
    broken_everywhere("a_silence_is_in_the_log_when_all_is_lost_only", || Arc::new(States(lost_by_a_task)))
        .fails("seen_lease_events_are_in_the_log")
        .passes("seen_acquisitions_are_counted_by_their_outcome"),
    broken_everywhere("a_healthy_client_says_that_it_is_suspended", || Arc::new(States(suspended)))
        .fails("seen_levels_of_a_healthy_client")
        .passes("seen_acquisitions_are_counted_by_their_outcome"),
];
