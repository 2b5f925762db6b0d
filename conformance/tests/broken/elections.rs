//! ELECTION- and GROUP-: node data, and watches of queues, that are wrong.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use latchwork_core::backend::{Backend, ChangeWatch, EntryPage, Join, Joined, Leave, QueueEntry};
use latchwork_core::{Address, Result};

use super::endings::NeverDies;
use super::leaves::NewIdForARetry;
use super::observed::{TellsOfOne, WritesNoData};
use super::order::{ALL, AdmitsEverybody};
use super::wrapper::{BrokenNode, Defect};
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "a_candidate_stands_first_and_says_who_it_is_then",
        case: "election_term_costs_what_a_mutex_costs",
        beside: "election_term_rises_from_leader_to_leader",
        testbed: |name| on_memory(name, WritesBehindTheJoin),
    },
    Control {
        name: "two_lead_at_once",
        case: "election_term_rises_from_leader_to_leader",
        beside: "watch_end_tells_why",
        testbed: |name| on_memory(name, AdmitsEverybody),
    },
    Control {
        name: "a_waiting_candidate_is_shown_as_the_leader",
        case: "election_term_rises_from_leader_to_leader",
        beside: "group_watch_tells_what_differs",
        testbed: |name| on_memory(name, ShowsTheLast),
    },
    Control {
        name: "the_dead_stand_on",
        case: "election_term_goes_on_without_the_dead",
        beside: "election_observe_sees_leaders_and_gaps",
        testbed: |name| on_memory(name, NeverDies),
    },
    Control {
        name: "a_candidate_stands_twice",
        case: "election_term_beside_lost_replies_and_cuts",
        beside: "election_observe_sees_leaders_and_gaps",
        testbed: |name| on_memory(name, NewIdForARetry),
    },
    Control {
        name: "a_candidate_is_seen_with_the_data_of_another",
        case: "election_data_stands_with_its_candidate",
        beside: "election_observe_sees_a_death",
        testbed: |name| on_memory(name, DataOfAnother),
    },
    Control {
        name: "a_proclamation_is_not_made",
        case: "election_data_stands_with_its_candidate",
        beside: "election_observe_sees_a_death",
        testbed: |name| on_memory(name, WritesNoData),
    },
    Control {
        name: "a_resignation_is_not_told",
        case: "election_observe_sees_leaders_and_gaps",
        beside: "election_term_rises_from_leader_to_leader",
        testbed: |name| on_memory(name, TellsOfOne),
    },
    Control {
        name: "a_proclamation_is_not_told",
        case: "election_observe_sees_leaders_and_gaps",
        beside: "election_term_rises_from_leader_to_leader",
        testbed: |name| on_memory(name, TellsOf::nothing_but(|told| (told.joins, told.leaves))),
    },
    Control {
        name: "the_death_of_a_leader_is_not_told",
        case: "election_observe_sees_a_death",
        beside: "election_observe_sees_leaders_and_gaps",
        testbed: |name| on_memory(name, TellsOf::nothing_but(|told| (told.joins + told.writes, told.leaves))),
    },
    Control {
        name: "terms_that_observers_see_fall",
        case: "election_observe_heals_a_gap",
        beside: "election_observe_ends_with_a_reason",
        testbed: |name| on_memory(name, TermsFall),
    },
    Control {
        name: "a_proclamation_reaches_the_successor",
        case: "election_loss_is_told_and_nothing_is_proclaimed_after_it",
        beside: "election_term_rises_from_leader_to_leader",
        testbed: |name| on_memory(name, WritesToTheNext::default()),
    },
    Control {
        name: "a_change_of_a_group_is_not_told",
        case: "group_members_are_seen_in_the_order_of_joining",
        beside: "election_term_goes_on_without_the_dead",
        testbed: |name| on_memory(name, TellsOfOne),
    },
    Control {
        name: "the_death_of_a_member_is_not_told",
        case: "group_members_go_with_their_lease",
        beside: "group_members_are_seen_in_the_order_of_joining",
        testbed: |name| on_memory(name, TellsOf::nothing_but(|told| (told.joins + told.writes, told.leaves))),
    },
    Control {
        name: "a_group_ends_with_its_first_page",
        case: "group_members_of_several_pages",
        beside: "group_watch_tells_what_differs",
        testbed: |name| on_memory(name, OnePage),
    },
    Control {
        name: "a_member_says_what_another_says",
        case: "group_watch_tells_what_differs",
        beside: "group_members_say_what_they_like",
        testbed: |name| on_memory(name, DataOfAnother),
    },
    Control {
        name: "what_happened_during_an_outage_is_not_told",
        case: "group_watch_heals_a_gap",
        beside: "group_watch_tells_what_differs",
        testbed: |name| on_memory(name, ListsFromMemory::default()),
    },
];

/// Data come with a request of their own.
#[derive(Debug)]
struct WritesBehindTheJoin;

#[async_trait]
impl Defect for WritesBehindTheJoin {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let joined = honest.join(&Join { data: Arc::default(), ..join.clone() }).await?;
        if let Joined::Admitted(node) | Joined::Waiting(node) = &joined
            && !join.data.is_empty()
        {
            node.write_data(&join.data).await?;
        }
        Ok(joined)
    }
}

/// The head of a queue looks like its last node.
#[derive(Debug)]
struct ShowsTheLast;

#[async_trait]
impl Defect for ShowsTheLast {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        if page.most > 1 {
            return honest.list(queue, page).await;
        }
        let last = honest.list(queue, ALL).await?.pop();
        Ok(last.map(|last| QueueEntry { admitted: true, ..last }).into_iter().collect())
    }
}

/// Each node of a page has the data of the one before it; the first, of the last.
#[derive(Debug)]
struct DataOfAnother;

#[async_trait]
impl Defect for DataOfAnother {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let mut entries = honest.list(queue, page).await?;
        let data: Vec<_> = entries.iter().map(|entry| Arc::clone(&entry.data)).collect();
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.data = Arc::clone(&data[(at + data.len() - 1) % data.len()]);
        }
        Ok(entries)
    }
}

/// How often clients have changed queues by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    joins: usize,
    leaves: usize,
    writes: usize,
}

/// What a watch tells of.
type Of = fn(Told) -> (usize, usize);

/// A watch tells of a change only when some of what clients do was done since it told last.
#[derive(Debug)]
struct TellsOf {
    counts: Arc<[AtomicUsize; 3]>,
    of: Of,
}

impl TellsOf {
    fn nothing_but(of: Of) -> Self {
        Self { counts: Arc::default(), of }
    }

    fn count(&self, which: usize) {
        self.counts[which].fetch_add(1, Ordering::AcqRel);
    }
}

fn told(counts: &[AtomicUsize; 3]) -> Told {
    let [joins, leaves, writes] = [0, 1, 2].map(|which| counts[which].load(Ordering::Acquire));
    Told { joins, leaves, writes }
}

#[async_trait]
impl Defect for TellsOf {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        self.count(0);
        honest.join(join).await
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        self.count(1);
        node.honest.leave().await
    }

    async fn write_data(&self, node: &BrokenNode, data: &Arc<[u8]>) -> Result<()> {
        self.count(2);
        node.honest.write_data(data).await
    }

    fn watch_queue(&self, honest: &Arc<dyn Backend>, queue: &Address) -> Box<dyn ChangeWatch> {
        let (counts, of) = (Arc::clone(&self.counts), self.of);
        Box::new(Selective { honest: honest.watch_queue(queue), counts, of, last: None })
    }
}

#[derive(Debug)]
struct Selective {
    honest: Box<dyn ChangeWatch>,
    counts: Arc<[AtomicUsize; 3]>,
    of: Of,
    last: Option<(usize, usize)>,
}

#[async_trait]
impl ChangeWatch for Selective {
    async fn changed(&mut self) -> Result<()> {
        loop {
            self.honest.changed().await?;
            let now = Some((self.of)(told(&self.counts)));
            if now != self.last {
                self.last = now;
                return Ok(());
            }
        }
    }
}

/// Listings count sequence numbers down.
#[derive(Debug)]
struct TermsFall;

#[async_trait]
impl Defect for TermsFall {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let entries = honest.list(queue, page).await?;
        let falls = |entry: QueueEntry| QueueEntry { sequence: (1 << 52) - entry.sequence, ..entry };
        Ok(entries.into_iter().map(falls).collect())
    }
}

/// A write of data comes again when its node is gone, and reaches those that stand then.
#[derive(Debug, Default)]
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
                // Those that are gone take nothing.
                let _gone = other.honest.write_data(&late).await;
            }
        });
        node.honest.write_data(data).await
    }
}

/// A page that is not the first is empty.
#[derive(Debug)]
struct OnePage;

#[async_trait]
impl Defect for OnePage {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        match page.after {
            0 => honest.list(queue, page).await,
            _ => Ok(Vec::new()),
        }
    }
}

/// While the server does not answer, a listing shows what was listed last.
#[derive(Debug, Default)]
struct ListsFromMemory(Mutex<Vec<QueueEntry>>);

#[async_trait]
impl Defect for ListsFromMemory {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let listed = honest.list(queue, page).await;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match listed {
            Ok(listed) => last.clone_from(&listed),
            Err(error) if error.may_pass() => {}
            Err(error) => return Err(error),
        }
        Ok(last.clone())
    }
}
