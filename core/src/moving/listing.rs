//! The listing of a queue over both sides of a move.
//!
//! *Content.* The queue of the side that gives the tokens, and after it the nodes on the other side that have
//! no place on this side. By the phase of the listing none of these holds: they wait for the side of the
//! tokens, or block acquisitions there.
//!
//! *Pairs.* The servers store no link between the two nodes of one acquisition: numbers are of one side, ids
//! are of one attempt and used again, and several clients may share a label. But an acquisition that waits on
//! the old side has no place on the new one (MIGRATE-CANONICAL-ORDER). So a node on the new side can only be
//! paired with a node that is admitted on the old side and has the same label and weight. Of several nodes
//! that look alike on both sides, the earlier ones are taken for pairs, since the latest are still on the
//! way. So the number of entries is right. If one client has several places in one queue, the listing may
//! name the wrong one of them as having no place on the other side.
//!
//! *Order of reads.* The new side is read before the old one: an acquisition that goes on to the new side in
//! between is shown on the old one.
//!
//! *Sequence numbers.* Numbers of the tokens' side are whole tokens. Numbers of the other side are above all
//! of them: tokens leave the highest bit free. They contain the epoch too, and so identify their side. So
//! pages go on where they ended, and a forced release reaches the listed node, or none.

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

/// In a number: it is of the side that does not give the tokens.
const BESIDE: u64 = 1 << 63;

/// The number of nodes in one read, if all are needed.
const PAGE: usize = 500;

impl Participant {
    /// Lists one page of a queue, after a number of an earlier page.
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
                // An acquisition that comes to it after this read is on the old side's list.
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

    /// The whole queue of the new side, of which a page after a number was read.
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

    /// Removes the node that was listed under this number. If the tokens have changed sides since, it removes
    /// nothing: list again.
    pub(super) async fn revoke(&self, queue: &Address, number: u64) -> Result<bool> {
        let (phase, epoch) = self.look(|known| (known.phase(), known.epoch()));
        let Some((side, sequence)) = listed_at(number, phase, epoch) else { return Ok(false) };
        let of = self.side(side);
        of.client.backend.revoke(&of.address(queue), sequence).await
    }

    /// A page of the queues with nodes, or with a stored limit, on either side: first the queues of the
    /// side of the tokens. A queue may be in two pages.
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
        // The keys are in the old side's namespace, also for nodes of the new side.
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

/// The start of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// After this number of the tokens' side.
    Here(u64),
    /// After this number of the other side: the whole tokens' side was shown.
    Beside(u64),
}

impl Behind {
    /// `None`: after the last entry.
    fn of(number: u64, epoch: u16) -> Option<Self> {
        let after = Token::coded(number);
        if after.epoch() > epoch {
            return None;
        }
        Some(match after.epoch() == epoch {
            // The tokens have changed sides since: from the beginning.
            false => Behind::Here(0),
            true if number & BESIDE == 0 => Behind::Here(after.sequence()),
            true => Behind::Beside(after.sequence()),
        })
    }

    /// The number after which the other side is shown.
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

/// The side and the sequence of the node with this listed number, if it may be listed now.
fn listed_at(number: u64, phase: MovePhase, epoch: u16) -> Option<(Side, u64)> {
    let token = Token::coded(number);
    let side = if number & BESIDE == 0 { phase.token() } else { phase.token().other() };
    (token.epoch() == epoch && phase.spans().has(side)).then_some((side, token.sequence()))
}

/// The properties that distinguish two nodes for certain: label and weight. Data and mode may change on one
/// side before they do on the other.
fn look(entry: &QueueEntry) -> (&str, Option<u32>) {
    let weight = match entry.claim {
        Claim::Permits(weight) => Some(weight),
        Claim::Exclusive | Claim::Shared => None,
    };
    (&entry.label, weight)
}

/// The nodes of a side that have no place on the other side. They hold nothing.
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
