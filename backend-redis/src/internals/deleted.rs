//! One key is deleted in the middle of a history, by an operator or an eviction: every node keeps its place
//! or is reported as gone, and no two nodes hold against the rule.

use std::collections::BTreeMap;

use latchwork_core::backend::NodeId;
use latchwork_core::{Claim, Kind, Limit};

use super::fixture::{FAR, Fixture, TICK};
use super::history::History;
use super::operations::LIMIT;
use crate::scripts::{JoinAnswer, RenewAnswer};

/// The parts with the nodes. Without any other part, all nodes still exist.
const NODES: [&str; 4] = ["seq", "exp", "node", "one"];

struct Stood {
    id: NodeId,
    sequence: u64,
    claim: Claim,
    admitted: bool,
}

impl History<'_> {
    /// Deletes a part of the queue, and checks the effect on every node. Returns whether the part and some
    /// nodes existed.
    async fn lose(&mut self, part: &str) -> bool {
        self.list().await;
        let before: Vec<_> = (self.twin.iter())
            .map(|(sequence, slot, admitted)| Stood { id: slot.id, sequence, claim: slot.claim, admitted })
            .collect();
        if self.delete(&[part]).await == 0 || before.is_empty() {
            return false;
        }
        self.now -= self.dice.roll(2) * self.dice.roll(TICK);
        self.log.push(format!("{part} is deleted, now {}", self.now));

        if self.dice.roll(2) == 0 {
            self.standings(&before).await;
        }
        let newcomer = self.newcomer().await;
        self.standings(&before).await;
        let after = self.standings(&before).await;
        let again = self.standings(&before).await;
        assert_eq!(after, again, "the queue changed between two reads, {}", self.story());

        // Only the hash knows the permits above a lowered limit. A join without a limit stores none.
        let limit = self.twin.limit().unwrap_or(0);
        let weight = |claim| if let Claim::Permits(weight) = claim { weight } else { 0 };
        let taken: u32 = before.iter().filter(|stood| stood.admitted).map(|stood| weight(stood.claim)).sum();
        let forgotten = part == "meta" && taken > limit;
        let limitless = part == "limit" && matches!(newcomer.1, JoinAnswer::Conflict { .. });
        let mut holders = Vec::new();
        for stood in &before {
            let answer = &after[&stood.sequence];
            let as_before = match answer {
                RenewAnswer::Unsettled => panic!("one script repairs a queue this short, {}", self.story()),
                RenewAnswer::Gone => NODES.contains(&part),
                _ if NODES.contains(&part) => false,
                RenewAnswer::Held => stood.admitted,
                RenewAnswer::Waiting { .. } => !stood.admitted && !limitless || forgotten,
                RenewAnswer::Unfit { .. } => {
                    forgotten || limitless || !stood.admitted && weight(stood.claim) > limit
                }
            };
            let Stood { sequence, admitted, .. } = stood;
            assert!(as_before, "{sequence}, admitted {admitted}, is {answer:?} {}", self.story());
            if *answer == RenewAnswer::Held {
                holders.push(stood.claim);
            }
        }
        if let JoinAnswer::Admitted { sequence, .. } | JoinAnswer::Waiting { sequence, .. } = newcomer.1 {
            let behind = before
                .iter()
                .all(|stood| sequence > stood.sequence || after[&stood.sequence] == RenewAnswer::Gone);
            assert!(behind, "{sequence} is before other nodes {}", self.story());
        }
        if matches!(newcomer.1, JoinAnswer::Admitted { .. }) {
            holders.push(newcomer.0);
        }
        let excluded = match self.address.kind() {
            Kind::Semaphore => holders.iter().map(|claim| weight(*claim)).sum::<u32>() > limit.max(taken),
            _ => holders.len() > 1 && holders.contains(&Claim::Exclusive),
        };
        assert!(!excluded, "{holders:?} hold {}", self.story());
        // A second message about the same admission does no harm.
        self.fixture.notified().await;
        true
    }

    async fn delete(&mut self, parts: &[&str]) -> u32 {
        let keys = self.queue.keys().chain([self.queue.left()]).map(|key| key.to_string());
        let named: Vec<_> =
            keys.filter(|key| parts.iter().any(|part| key.ends_with(&format!(":{part}")))).collect();
        self.fixture.raw(redis::cmd("DEL").arg(named)).await.unwrap()
    }

    async fn newcomer(&mut self) -> (Claim, JoinAnswer) {
        let claim = self.claim();
        let join = self.attempt(claim, Limit::Exactly(self.twin.limit().unwrap_or(LIMIT)));
        let answer = self.try_join(&join).await.unwrap();
        self.log.push(format!("newcomer {claim:?}: {answer:?}"));
        (claim, answer)
    }

    async fn standings(&mut self, before: &[Stood]) -> BTreeMap<u64, RenewAnswer> {
        let mut standings = BTreeMap::new();
        for stood in before {
            standings.insert(stood.sequence, self.renewed((stood.id, stood.sequence), FAR).await);
        }
        self.log.push(format!("standings {standings:?}"));
        standings
    }
}

async fn histories(kind: Kind, parts: &[&str]) {
    let fixture = Fixture::start().await;
    for part in parts {
        let mut lost = 0;
        for seed in 0..100 {
            let mut history = History::new(&fixture, Fixture::queue(kind, "deleted"), seed);
            for _ in 0..10 + seed % 30 {
                history.step().await;
            }
            lost += usize::from(history.lose(part).await);
        }
        assert!(lost > 3, "{part} existed only {lost} times");
    }
}

#[tokio::test]
async fn a_node_of_an_exclusive_queue_outlives_a_deleted_key_or_is_gone() {
    histories(Kind::Mutex, &["seq", "exp", "node", "meta", "one", "left"]).await;
}

#[tokio::test]
async fn a_node_of_a_shared_queue_outlives_a_deleted_key_or_is_gone() {
    histories(Kind::RwLock, &["seq", "exp", "node", "meta", "one", "writers", "left"]).await;
}

#[tokio::test]
async fn a_node_of_a_queue_of_permits_outlives_a_deleted_key_or_is_gone() {
    histories(Kind::Semaphore, &["seq", "exp", "node", "meta", "limit", "left"]).await;
}

/// The nodes' keys expire when all owners are dead and no script runs.
#[tokio::test]
async fn a_join_after_the_nodes_have_run_out_unseen_is_admitted() {
    let fixture = Fixture::start().await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        let mut admitted = 0;
        for seed in 0..60 {
            let mut history = History::new(&fixture, Fixture::queue(kind, "lapsed"), seed);
            for _ in 0..10 + seed % 30 {
                history.step().await;
            }
            let lapsed = history.delete(&["seq", "exp", "node", "writers"]).await;
            history.now += 60 * TICK;
            let (_, answer) = history.newcomer().await;
            let waits = matches!(answer, JoinAnswer::Waiting { .. });
            assert!(lapsed < 3 || !waits, "{answer:?} {}", history.story());
            admitted += u32::from(lapsed >= 3 && matches!(answer, JoinAnswer::Admitted { .. }));
        }
        assert!(admitted > 3, "{kind:?}: admitted only {admitted} times");
    }
}

/// More nodes than one call of a script admits.
#[tokio::test]
async fn hundreds_of_holders_outlive_a_deleted_hash() {
    let fixture = Fixture::start().await;
    for kind in [Kind::RwLock, Kind::Semaphore] {
        let mut history = History::new(&fixture, Fixture::queue(kind, "deleted"), 7);
        let claim = if kind == Kind::RwLock { Claim::Shared } else { Claim::Permits(1) };
        let mut held = Vec::new();
        for _ in 0..600 {
            let join = history.attempt(claim, Limit::Exactly(600));
            let answer = history.try_join(&join).await.unwrap();
            let JoinAnswer::Admitted { sequence, .. } = answer else { panic!("{answer:?}") };
            held.push((join.id, sequence));
        }
        assert_eq!(history.delete(&["meta"]).await, 1);
        let mut unsettled = 0;
        for (number, node) in held.iter().enumerate().rev().step_by(100) {
            let mut answer = history.renewed(*node, FAR).await;
            while answer == RenewAnswer::Unsettled {
                unsettled += 1;
                answer = history.renewed(*node, FAR).await;
            }
            assert_eq!(answer, RenewAnswer::Held, "{kind:?}, number {number}");
        }
        // Before all nodes were read, no renewal answers "waits" or "gone".
        assert!((1..10).contains(&unsettled), "{kind:?}: {unsettled} times");
    }
}

#[tokio::test]
async fn a_late_join_of_an_abandoned_attempt_meets_its_tombstone_without_the_hash() {
    let fixture = Fixture::start().await;
    let kinds = [Kind::Mutex, Kind::RwLock, Kind::Semaphore];
    for (kind, others_first) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut history = History::new(&fixture, Fixture::queue(kind, "deleted"), 7);
        while history.contenders.is_empty() {
            history.join_new().await;
        }
        history.abandon().await;
        assert_eq!(history.delete(&["meta"]).await, 1);
        if others_first {
            // This script cannot read the tombstones, and writes the hash again.
            history.sweep().await;
        }
        history.join_again().await;
        assert!(history.twin.is_empty(), "the twin has the tombstone");
    }
}
