//! The long tier: tasks of several processes.

use std::time::Duration;

use latchwork_core::Claim;

use super::process;
use crate::bounds::LONG_TTL;
use crate::case::cases;
use crate::child::{Child, Soak, SoakKind};
use crate::context::Context;
use crate::hold_record::{HoldRecord, in_order_of_tokens, none_overlap};

const PROCESSES: usize = 4;
const SECONDS: u64 = 30;
const TASKS: usize = 50;
const LIMIT: u32 = 5;
const KEYS: usize = 6;

cases! {
    "MUTEX-EXCLUSION" adapted alone long =>
    /// 200 tasks over 4 client processes for 30 seconds: no overlap, tokens strictly rising in the
    /// order of holding, all served
    async fn soak_200_tasks_in_4_processes(context) {
        let records = soak(context, of(context, SoakKind::Exclusive).await, PROCESSES).await;
        judged(in_order_of_tokens(&records));
        judged(none_overlap(&records, LIMIT));
    }

    "RWLOCK-EXCLUSION" alone long =>
    /// readers and writers of 200 tasks over 4 client processes for 30 seconds: a writer is always alone, tokens order
    /// readers and writers, both served everywhere
    async fn soak_readers_and_writers_in_4_processes(context) {
        let records = soak(context, of(context, SoakKind::ReadWrite).await, PROCESSES).await;
        judged(in_order_of_tokens(&records));
        judged(none_overlap(&records, LIMIT));
    }

    "SEMAPHORE-LIMIT" alone long =>
    /// permits of weights from 1 to the limit of 5, for 200 tasks over 4 client processes for 30 seconds: never more
    /// than the limit, each weight served everywhere
    async fn soak_weighted_permits_in_4_processes(context) {
        let records = soak(context, of(context, SoakKind::Permits { limit: LIMIT }).await, PROCESSES).await;
        judged(none_overlap(&records, LIMIT));
    }

    "MULTI-ORDER" alone long =>
    /// random pairs of 6 keys in random order, by 8 client processes for 30 seconds: no deadlock, one holder of each
    /// key, each key in the order of its tokens
    async fn soak_random_pairs_in_8_processes(context) {
        let pairs = Soak { tasks: 2, pairs_of: Some(KEYS), ..of(context, SoakKind::Exclusive).await };
        let records = soak(context, pairs, 8).await;
        for key in 0..KEYS {
            let of_key: Vec<_> = records.iter().filter(|record| record.key == key).copied().collect();
            judged(in_order_of_tokens(&of_key));
            judged(none_overlap(&of_key, 1));
        }
    }
}

async fn of(context: &Context, kind: SoakKind) -> Soak {
    let contested = context.contested("soak").await;
    Soak { contested, tasks: TASKS, seconds: SECONDS, kind, pairs_of: None, outlasts: false }
}

async fn soak(context: &Context, soak: Soak, processes: usize) -> Vec<HoldRecord> {
    let Some(config) = process::processes(context, LONG_TTL) else { return Vec::new() };
    let children: Vec<_> = (0..processes).map(|_| Child::start(&config, &soak)).collect();
    let ends = children.into_iter().map(|child| child.ends(Duration::from_secs(SECONDS + 60)));
    let mut all = Vec::new();
    for records in futures_util::future::join_all(ends).await {
        for claim in claims(soak.kind) {
            assert!(records.iter().any(|record| record.claim == claim), "a process never held as {claim:?}");
        }
        all.extend(records);
    }
    eprintln!(
        "{} as {}, {soak:?}: {} grants in {SECONDS} s by {processes} processes",
        context.testbed.name(),
        context.adapter,
        all.len()
    );
    all
}

fn claims(kind: SoakKind) -> Vec<Claim> {
    match kind {
        SoakKind::Exclusive => vec![Claim::Exclusive],
        SoakKind::ReadWrite => vec![Claim::Exclusive, Claim::Shared],
        SoakKind::Permits { limit } => (1..=limit).map(Claim::Permits).collect(),
    }
}

pub(super) fn judged(verdict: Result<(), String>) {
    if let Err(why) = verdict {
        panic!("{why}");
    }
}
