//! ELECTION- and GROUP-.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use latchwork_core::Result;
use latchwork_core::backend::{Backend, Join, Joined};

use super::defect::Defect;
use super::endings::NeverDies;
use super::leaves::{Joins, as_another_if_repeated, without_data};
use super::listings::{EmptyPages, Lists, ListsFromMemory, ShowsTheLast, number_downwards, shift_data};
use super::observed::WritesNoData;
use super::order::Admits;
use super::watches::{JOINS, LEAVES, TellsOf, TellsOfOne, WRITES};
use super::wrapper::BrokenNode;
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("a_candidate_stands_first_and_says_who_it_is_then", || Arc::new(WritesBehindTheJoin))
        .fails("election_term_costs_as_many_requests_as_a_mutex")
        .passes("election_term_rises_from_leader_to_leader"),
    broken("two_lead_at_once", || Arc::new(Admits(|_| true)))
        .fails("election_term_rises_from_leader_to_leader")
        .passes("watch_end_reports_its_reason"),
    broken("a_waiting_candidate_is_shown_as_the_leader", || Arc::new(ShowsTheLast))
        .fails("election_term_rises_from_leader_to_leader")
        .passes("group_watch_reports_joins_updates_and_leaves"),
    broken("the_dead_stand_on", || Arc::new(NeverDies))
        .fails("election_term_goes_on_without_the_dead")
        .passes("election_observe_sees_leaders_and_gaps"),
    broken("a_candidate_stands_twice", || Arc::new(Joins(as_another_if_repeated)))
        .fails("election_term_survives_lost_replies_and_cuts")
        .passes("election_observe_sees_leaders_and_gaps"),
    broken("a_candidate_is_seen_with_the_data_of_another", || Arc::new(Lists(|entries| shift_data(entries))))
        .fails("election_data_disappears_with_its_candidate")
        .passes("election_observe_sees_a_death"),
    broken("a_proclamation_is_not_made", || Arc::new(WritesNoData))
        .fails("election_data_disappears_with_its_candidate")
        .passes("election_observe_sees_a_death"),
    broken("a_resignation_is_not_told", || Arc::new(TellsOfOne))
        .fails("election_observe_sees_leaders_and_gaps")
        .passes("election_term_rises_from_leader_to_leader"),
    broken("a_proclamation_is_not_told", || Arc::new(TellsOf::only(&[JOINS, LEAVES])))
        .fails("election_observe_sees_leaders_and_gaps")
        .passes("election_term_rises_from_leader_to_leader"),
    broken("the_death_of_a_leader_is_not_told", || Arc::new(TellsOf::only(&[JOINS, LEAVES, WRITES])))
        .fails("election_observe_sees_a_death")
        .passes("election_observe_sees_leaders_and_gaps"),
    broken("terms_that_observers_see_fall", || Arc::new(Lists(|entries| number_downwards(entries))))
        .fails("election_observe_heals_a_gap")
        .passes("election_observe_ends_with_a_reason"),
    broken("a_proclamation_reaches_the_successor", || Arc::new(WritesToTheNext::default()))
        .fails("election_loss_is_reported_and_ends_proclamations")
        .passes("election_term_rises_from_leader_to_leader"),
    broken("a_change_of_a_group_is_not_told", || Arc::new(TellsOfOne))
        .fails("group_members_are_seen_in_the_order_of_joining")
        .passes("election_term_goes_on_without_the_dead"),
    broken("the_death_of_a_member_is_not_told", || Arc::new(TellsOf::only(&[JOINS, LEAVES, WRITES])))
        .fails("group_members_go_with_their_lease")
        .passes("group_members_are_seen_in_the_order_of_joining"),
    broken("a_group_ends_with_its_first_page", || Arc::new(EmptyPages(|page| page.after != 0)))
        .fails("group_members_of_several_pages")
        .passes("group_watch_reports_joins_updates_and_leaves"),
    broken("a_member_says_what_another_says", || Arc::new(Lists(|entries| shift_data(entries))))
        .fails("group_watch_reports_joins_updates_and_leaves")
        .passes("group_members_data_has_up_to_4096_bytes"),
    broken("what_happened_during_an_outage_is_not_told", || Arc::new(ListsFromMemory::default()))
        .fails("group_watch_heals_a_gap")
        .passes("group_watch_reports_joins_updates_and_leaves"),
];

struct WritesBehindTheJoin;

#[async_trait]
impl Defect for WritesBehindTheJoin {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let joined = honest.join(&without_data(join)).await?;
        if let Joined::Admitted(node) | Joined::Waiting(node) = &joined
            && !join.data.is_empty()
        {
            node.write_data(&join.data).await?;
        }
        Ok(joined)
    }
}

/// Sends a write of data again when its node is gone, to the nodes that exist then.
#[derive(Default)]
struct WritesToTheNext(Arc<Mutex<Vec<Weak<BrokenNode>>>>);

#[async_trait]
impl Defect for WritesToTheNext {
    fn made(&self, node: &Arc<BrokenNode>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(node));
    }

    async fn write_data(&self, node: &BrokenNode, data: &Arc<[u8]>) -> Result<()> {
        let (nodes, honest, late) = (Arc::clone(&self.0), Arc::clone(&node.honest), Arc::clone(data));
        tokio::spawn(async move {
            honest.state().until_lost().await;
            let nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for other in nodes.iter().filter_map(Weak::upgrade) {
                // The write has no effect on a removed node.
                let _gone = other.honest.write_data(&late).await;
            }
        });
        node.honest.write_data(data).await
    }
}
