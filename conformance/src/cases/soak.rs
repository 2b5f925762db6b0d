//! The long tier: many tasks in several processes, for a while.

use std::time::Duration;

use latchwork_core::decide::Claim;

use super::process::processes;
use crate::case::cases;
use crate::contender::Contender;
use crate::kit::{LONG_TTL, Scene};
use crate::order::{Event, Soak, SoakKind};
use crate::stint::{Stint, in_order_of_tokens, none_overlap};

const PROCESSES: usize = 4;
const SECONDS: u64 = 30;
const TASKS: usize = 50;
const LIMIT: u32 = 5;

cases! {
    "MUTEX-EXCLUSION" adapted alone long =>
    /// 200 tasks over 4 client processes for 30 seconds: no overlap, tokens strictly rising in the order of holding, all served
    async fn soak_200_tasks_in_4_processes(scene) {
        let stints = soak(scene, SoakKind::Exclusive).await;
        // FIFO by sequence number: the order of tokens is the order of holding.
        judged(in_order_of_tokens(&stints));
        judged(none_overlap(&stints, LIMIT));
    }

    "RWLOCK-EXCLUSION" alone long =>
    /// readers and writers by 200 tasks over 4 client processes for 30 seconds: nobody beside a writer, writers and readers in the
    /// order of their tokens, both served everywhere
    async fn soak_readers_and_writers_in_4_processes(scene) {
        let stints = soak(scene, SoakKind::ReadWrite).await;
        judged(in_order_of_tokens(&stints));
        judged(none_overlap(&stints, LIMIT));
    }

    "SEMAPHORE-LIMIT" alone long =>
    /// permits in weights from 1 to the limit of 5, by 200 tasks over 4 client processes for 30 seconds: never more than the limit,
    /// every weight served everywhere
    async fn soak_weighted_permits_in_4_processes(scene) {
        let stints = soak(scene, SoakKind::Permits { limit: LIMIT }).await;
        judged(none_overlap(&stints, LIMIT));
    }
}

/// What the processes say of a soak; nothing where the testbed has none.
async fn soak(scene: &Scene, kind: SoakKind) -> Vec<Stint> {
    let Some(config) = processes(scene, LONG_TTL) else { return Vec::new() };
    let order = Soak { tasks: TASKS, seconds: SECONDS, kind };
    let mut contenders = Vec::new();
    for _ in 0..PROCESSES {
        contenders.push(Contender::soaking(scene, &config, "soak", order).await);
    }
    let mut all = Vec::new();
    for stints in futures_util::future::join_all(contenders.into_iter().map(stints_of)).await {
        for claim in claims(kind) {
            assert!(stints.iter().any(|stint| stint.claim == claim), "a process never held as {claim:?}");
        }
        all.extend(stints);
    }
    eprintln!(
        "{} as {}, {kind:?}: {} grants in {SECONDS} s by {PROCESSES} processes",
        scene.bed.name(),
        scene.adapter,
        all.len()
    );
    all
}

/// As what the tasks of a soak hold.
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

/// All that one process reports, to its end in order.
async fn stints_of(mut contender: Contender) -> Vec<Stint> {
    let mut stints = Vec::new();
    let whole = async {
        loop {
            match contender.next_in_time().await {
                Event::Stint(stint) => stints.push(stint),
                Event::Released => return,
                other => panic!("unexpected in a soak: {other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(SECONDS + 60), whole).await.expect("the soak ends");
    stints
}
