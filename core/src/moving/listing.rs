//! The listing of a queue over both sides.
//!
//! *Content.* First the queue of the side that gives the tokens, and then the nodes of the other side without
//! a place there. Those hold nothing: they wait for the tokens' side, or block acquisitions.
//!
//! *Pairs.* The servers store no link between the two nodes of one acquisition. But a waiter on the old side
//! has no place on the new side (MIGRATE-CANONICAL-ORDER). So a node on the new side pairs only with an
//! admitted node on the old side, of the same label and weight. The earliest such nodes count as pairs, since
//! the latest are still on the way. So the number of entries is right, but if one client has several places
//! in a queue, the listing may show the wrong one as unpaired.
//!
//! *Order of reads.* The new side is read first: an acquisition that joins it in between is listed on the old
//! side.
//!
//! *Sequence numbers.* On the tokens' side they are whole tokens. On the other side they also have the
//! highest bit, which tokens leave free. Each contains the epoch, and so names its side: pages continue in
//! the right place, and a forced release reaches the listed node or none.

use std::collections::HashMap;

use super::participant::Participant;
use super::side::SideClient;
use crate::address::{Address, QueuePrefix};
use crate::contracts::{EntryPage, KeysWith, ListedKey, QueueEntry};
use crate::decide::Claim;
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, Result};
use crate::listing::Page;
use crate::token::Token;
use crate::watched::list_behind;

/// Marks a number of the side that does not give the tokens.
const BESIDE: u64 = 1 << 63;

const PAGE: usize = 500;

impl Participant {
    pub(super) async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let (phase, epoch) = self.look(|known| (known.phase(), known.epoch()));
        let Some(behind) = Behind::of(page.after, epoch) else { return Ok(Vec::new()) };
        let side = phase.token();
        let part = match behind {
            Behind::Here(after) => self.side(side).list(queue, EntryPage { after, ..page }).await?,
            Behind::Beside(_) => Vec::new(),
        };
        let beside = phase.spans().has(side.other()) && part.len() < page.most;
        let mut shown = Vec::new();
        if beside {
            let new = match side {
                // An acquisition that joins it after this read is listed on the old side.
                Side::New => self.new_side_up_to(queue, page, behind, &part).await?,
                Side::Old => self.new.list_all(queue, page.leases).await?,
            };
            let old = self.old.list_all(queue, page.leases).await?;
            shown = alone(side.other(), old, new);
        }
        let here = part.into_iter().map(|entry| coded(epoch, 0, entry));
        let beside = shown.into_iter().filter(|entry| entry.sequence > behind.beside());
        here.chain(beside.map(|entry| coded(epoch, BESIDE, entry))).take(page.most).collect()
    }

    /// The whole queue of the new side, of which one page was read.
    async fn new_side_up_to(
        &self,
        queue: &Address,
        page: EntryPage,
        behind: Behind,
        part: &[QueueEntry],
    ) -> Result<Vec<QueueEntry>> {
        match behind {
            Behind::Here(0) => Ok(part.to_vec()),
            Behind::Here(after) => {
                let mut all = self.new.list_all(queue, page.leases).await?;
                all.retain(|entry| entry.sequence <= after);
                all.extend_from_slice(part);
                Ok(all)
            }
            Behind::Beside(_) => self.new.list_all(queue, page.leases).await,
        }
    }

    /// Removes the node with this listed number, unless the tokens have changed sides since.
    pub(super) async fn revoke(&self, queue: &Address, number: u64) -> Result<bool> {
        let (phase, epoch) = self.look(|known| (known.phase(), known.epoch()));
        let Some((side, sequence)) = listed_at(number, phase, epoch) else { return Ok(false) };
        let of = self.side(side);
        of.client.backend.revoke(&of.address(queue), sequence).await
    }

    /// A page of the queues with nodes or a stored limit, the tokens' side first. A queue may be in two
    /// pages.
    pub(super) async fn queues(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        let phase = self.phase();
        let first = phase.token();
        let (side, after) = match after {
            None => (first, None),
            Some(after) => {
                let unknown = || Error::invalid("after", "is not the `next` of a page of this listing");
                let (side, after) = after.split_once(':').ok_or_else(unknown)?;
                let side = [Side::Old, Side::New].into_iter().find(|of| of.as_str() == side);
                (side.ok_or_else(unknown)?, Some(after).filter(|after| !after.is_empty()))
            }
        };
        if !phase.spans().has(side) {
            return Ok(Page::default());
        }
        let there = self.side(side);
        let page = there.client.backend.list_keys(with, &there.prefix(of), after, most).await?;
        let next = match page.next {
            Some(next) => Some(format!("{}:{next}", side.as_str())),
            None if side == first && phase.spans().has(first.other()) => {
                Some(format!("{}:", first.other().as_str()))
            }
            None => None,
        };
        // Keys are in the old side's namespace, also for nodes of the new side.
        let named = |listed: ListedKey| ListedKey { address: self.old.address(&listed.address), ..listed };
        Ok(Page::new(page.items.into_iter().map(named).collect(), next))
    }
}

impl SideClient {
    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        self.client.backend.list(&self.address(queue), page).await
    }

    async fn list_all(&self, queue: &Address, leases: bool) -> Result<Vec<QueueEntry>> {
        let page = EntryPage { leases, ..EntryPage::new(0, PAGE) };
        list_behind(&*self.client.backend, &self.address(queue), page).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// After this number of the tokens' side.
    Here(u64),
    /// After this number of the other side.
    Beside(u64),
}

impl Behind {
    fn of(number: u64, epoch: u16) -> Option<Self> {
        let after = Token::coded(number);
        if after.epoch() > epoch {
            return None;
        }
        Some(match after.epoch() == epoch {
            // The tokens have changed sides: from the beginning.
            false => Behind::Here(0),
            true if number & BESIDE == 0 => Behind::Here(after.sequence()),
            true => Behind::Beside(after.sequence()),
        })
    }

    /// The number after which the other side is listed.
    fn beside(self) -> u64 {
        match self {
            Behind::Here(_) => 0,
            Behind::Beside(after) => after,
        }
    }
}

fn coded(epoch: u16, beside: u64, entry: QueueEntry) -> Result<QueueEntry> {
    let sequence = Token::new(epoch, entry.sequence)?.as_u64() | beside;
    Ok(QueueEntry { sequence, ..entry })
}

/// The side and sequence of a listed number, if it is still valid.
fn listed_at(number: u64, phase: MovePhase, epoch: u16) -> Option<(Side, u64)> {
    let token = Token::coded(number);
    let side = if number & BESIDE == 0 { phase.token() } else { phase.token().other() };
    (token.epoch() == epoch && phase.spans().has(side)).then_some((side, token.sequence()))
}

/// The certain differences between nodes. Data and mode may change on one side first.
fn look(entry: &QueueEntry) -> (&str, Option<u32>) {
    let weight = match entry.claim {
        Claim::Permits(weight) => Some(weight),
        Claim::Exclusive | Claim::Shared => None,
    };
    (&entry.label, weight)
}

/// The nodes of a side without a place on the other one. They hold nothing.
fn alone(of: Side, old: Vec<QueueEntry>, new: Vec<QueueEntry>) -> Vec<QueueEntry> {
    let may_pair = |side: Side, entry: &QueueEntry| side == Side::New || entry.admitted;
    let (there, here) = match of {
        Side::Old => (old, new),
        Side::New => (new, old),
    };
    let mut here_too: HashMap<_, usize> = HashMap::new();
    for entry in here.iter().filter(|entry| may_pair(of.other(), entry)) {
        *here_too.entry(look(entry)).or_default() += 1;
    }
    let mut alone = Vec::new();
    for entry in &there {
        match here_too.get_mut(&look(entry)) {
            Some(left) if *left > 0 && may_pair(of, entry) => *left -= 1,
            _ => alone.push(QueueEntry { admitted: false, ..entry.clone() }),
        }
    }
    alone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: u64, label: &str, admitted: bool, claim: Claim) -> QueueEntry {
        let (label, data) = (label.to_owned(), [].into());
        QueueEntry { sequence, claim, admitted, label, age: None, lease_left: None, data }
    }

    fn nodes(listed: &[(u64, &str, bool)]) -> Vec<QueueEntry> {
        listed
            .iter()
            .map(|(number, label, admitted)| entry(*number, label, *admitted, Claim::Exclusive))
            .collect()
    }

    #[test]
    fn equal_nodes_of_both_sides_pair_up_and_the_surplus_is_alone() {
        type Listed<'a> = &'a [(u64, &'a str, bool)];
        type Case<'a> = (&'a str, Listed<'a>, Listed<'a>, &'a [u64], &'a [u64]);
        let cases: [Case<'_>; 7] = [
            (
                "a hold, and a waiter after it",
                &[(1, "a", true), (2, "b", false)],
                &[(7, "a", true)],
                &[2],
                &[],
            ),
            ("one is on the way to the new side", &[(1, "a", true)], &[], &[1], &[]),
            ("a dead one is ahead on the new side", &[(1, "a", true)], &[(7, "d", true)], &[1], &[7]),
            (
                "the holder of the old side waits after it",
                &[(1, "a", true)],
                &[(7, "d", true), (8, "a", false)],
                &[],
                &[7],
            ),
            (
                "a client waits after its own hold",
                &[(1, "a", true), (2, "a", false)],
                &[(7, "a", true)],
                &[2],
                &[],
            ),
            (
                "of three that look alike one is on the way",
                &[(1, "a", true), (2, "a", true), (3, "a", true)],
                &[(7, "a", true), (8, "a", true)],
                &[3],
                &[],
            ),
            (
                "a waiter on the old side has no node on the new one",
                &[(1, "a", false)],
                &[(7, "a", true)],
                &[1],
                &[7],
            ),
        ];
        for (what, old, new, alone_on_old, alone_on_new) in cases {
            for (side, expected) in [(Side::Old, alone_on_old), (Side::New, alone_on_new)] {
                let alone = alone(side, nodes(old), nodes(new));
                assert_eq!(alone.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), expected, "{what}");
                assert!(alone.iter().all(|entry| !entry.admitted), "{what}");
            }
        }
    }

    #[test]
    fn another_weight_is_another_place_and_another_mode_is_not() {
        let pairs = |old, new| {
            let (old, new) = (entry(1, "a", true, old), entry(7, "a", true, new));
            alone(Side::Old, vec![old], vec![new]).is_empty()
        };
        assert!(pairs(Claim::Permits(2), Claim::Permits(2)) && !pairs(Claim::Permits(2), Claim::Permits(1)));
        assert!(pairs(Claim::Exclusive, Claim::Shared), "a downgrade under way");
    }

    #[test]
    fn next_page_continues_unless_a_switch_restarts_it() {
        let number = |epoch, sequence, beside| Token::new(epoch, sequence).expect("fits").as_u64() | beside;
        for (after, expected) in [
            (0, Some(Behind::Here(0))),
            (number(3, 7, 0), Some(Behind::Here(7))),
            (number(3, 7, BESIDE), Some(Behind::Beside(7))),
            (number(2, 7, 0), Some(Behind::Here(0))),
            (number(2, 7, BESIDE), Some(Behind::Here(0))),
            (number(4, 1, 0), None),
        ] {
            assert_eq!(Behind::of(after, 3), expected, "{after:x}");
        }
        assert_eq!(Behind::of(5, 0), Some(Behind::Here(5)));
        assert!(
            number(3, 1, BESIDE) > number(Token::MAX_EPOCH, 7, 0),
            "in order, after all nodes of the tokens' side"
        );
    }

    #[test]
    fn number_names_its_side_and_is_invalid_after_a_switch() {
        use MovePhase::{BothByNew, BothByOld, Done, New, Old};
        let number = |sequence, beside| Token::new(1, sequence).expect("fits").as_u64() | beside;
        for (phase, here, beside) in [
            (Old, Some(Side::Old), None),
            (BothByOld, Some(Side::Old), Some(Side::New)),
            (BothByNew, Some(Side::New), Some(Side::Old)),
            (New, Some(Side::New), Some(Side::Old)),
            (Done, Some(Side::New), None),
        ] {
            assert_eq!(listed_at(number(7, 0), phase, 1), here.map(|side| (side, 7)), "{phase}");
            assert_eq!(listed_at(number(7, BESIDE), phase, 1), beside.map(|side| (side, 7)), "{phase}");
            assert_eq!(listed_at(number(7, BESIDE), phase, 2), None, "{phase}");
        }
    }
}
