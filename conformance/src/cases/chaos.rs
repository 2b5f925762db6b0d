//! Random faults of links, and clients that die and return.

mod clients;
mod work;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::Config;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use super::is_long;
use super::soak::judged;
use crate::bounds::SHORT_TTL;
use crate::case::cases;
use crate::child::SoakKind;
use crate::context::Context;
use crate::hold_record::{HoldRecord, in_order_of_tokens, none_overlap};
use crate::testbed::Client;
use crate::waits::{soon, within};

/// Marks the requests of chaos.
const KEY: &str = "chaos";
const KEYS: usize = 12;
const CLIENTS: usize = 12;
const TASKS: usize = 4;
const LIMIT: u32 = 3;
/// The rarest fault that chaos must find (the node of a late join) was missed by one of 20 runs of ten paused
/// minutes, and by none of 250 of thirty.
const PAUSED: Duration = Duration::from_secs(1800);
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(12);
const AGAIN: Duration = Duration::from_millis(100);
/// On a paused clock these checks are most of the work. A shorter overlap that ends with a loss may stay
/// unseen.
const LOOK: Duration = Duration::from_millis(5);
const PAUSED_LOOK: Duration = Duration::from_millis(20);

cases! {
    "MUTEX-EXCLUSION" lasting faults =>
    /// random faults and crashes while 48 tasks of 12 clients contend and drop futures: holds never overlap, tokens
    /// rise, and all tasks are served afterwards
    async fn mutex_under_chaos(context) {
        chaos(context, SoakKind::Exclusive, length(context)).await;
    }

    "RWLOCK-EXCLUSION" lasting faults =>
    /// random faults and crashes while 48 tasks of 12 clients read, write and downgrade: a writer is always alone,
    /// tokens order readers and writers, and all tasks are served afterwards
    async fn rwlock_under_chaos(context) {
        chaos(context, SoakKind::ReadWrite, length(context)).await;
    }

    "SEMAPHORE-LIMIT" lasting faults =>
    /// random faults and crashes while 48 tasks of 12 clients acquire permits of all weights: the limit is never
    /// exceeded, and all tasks are served afterwards
    async fn semaphore_under_chaos(context) {
        chaos(context, SoakKind::Permits { limit: LIMIT }, length(context)).await;
    }
}

struct Chaos {
    kind: SoakKind,
    began: Instant,
    ends: Instant,
    ttl: Duration,
    look: Duration,
    records: Mutex<[Vec<HoldRecord>; KEYS]>,
    lost: AtomicUsize,
    failed: AtomicUsize,
    given_up: AtomicUsize,
    crashes: AtomicUsize,
}

fn length(context: &Context) -> Duration {
    match (context.testbed.is_paused(), is_long()) {
        (true, _) => PAUSED,
        (false, true) => LONG,
        (false, false) => SHORT,
    }
}

pub(crate) async fn chaos(context: &Context, kind: SoakKind, lasts: Duration) {
    let seed = context.seed();
    let first = well(context, &context.config(SHORT_TTL)).await;
    let newborn = (0..CLIENTS).map(|number| async move {
        let mut chance = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        (newcomer(context, &mut chance).await, chance)
    });
    // On a busy machine, connecting over TLS takes as long as a life.
    let newborn = join_all(newborn).await;
    let began = Instant::now();
    let chaos = Arc::new(Chaos {
        kind,
        began,
        ends: began + lasts,
        ttl: first.ttl(),
        look: if context.testbed.is_paused() { PAUSED_LOOK } else { LOOK },
        records: Mutex::default(),
        lost: AtomicUsize::default(),
        failed: AtomicUsize::default(),
        given_up: AtomicUsize::default(),
        crashes: AtomicUsize::default(),
    });
    let lives = newborn.into_iter().enumerate().map(|(number, (newborn, chance))| {
        chaos.live_and_die(context, &first, newborn, chance, number % 3 == 0)
    });
    let last = join_all(lives).await;
    let holds = chaos.judge();
    sleep(chaos.ttl * 2).await;
    for client in [first].into_iter().chain(last) {
        let recovery = context.recovery(&client);
        for key in 0..KEYS {
            let served = chaos.serve(&client.coordinator, key, context.testbed.is_paused());
            within(recovery, "a turn after the end of the faults", served).await;
        }
        soon("the close", client.coordinator.close()).await.expect("closed");
    }
    let count = |counter: &AtomicUsize| counter.load(Ordering::Acquire);
    let (lost, failed, given_up, crashes) =
        (count(&chaos.lost), count(&chaos.failed), count(&chaos.given_up), count(&chaos.crashes));
    eprintln!(
        "{}, {kind:?}: {holds} holds, {lost} lost, {failed} requests failed, {given_up} given up, {crashes} crashes",
        context.testbed.name()
    );
    assert!(holds > KEYS, "nobody got anything");
    // In a short run no hold may be lost.
    assert!(crashes >= CLIENTS / 3 && given_up > 0, "too few faults: the run has no result");
    assert!(lasts < LONG || lost.min(failed) > 0, "too few faults: the run has no result");
}

async fn newcomer(context: &Context, chance: &mut StdRng) -> (Client, String) {
    let label = format!("client-{:x}", chance.random::<u64>());
    let mut config = context.config(SHORT_TTL);
    config.label = Some(label.clone());
    (well(context, &config).await, label)
}

async fn well(context: &Context, config: &Config) -> Client {
    let connecting = async {
        loop {
            match context.fixture.client(config).await {
                Err(error) if error.may_pass() => sleep(AGAIN).await,
                answer => return answer.expect("a client connects"),
            }
        }
    };
    soon("connect", connecting).await
}

impl Chaos {
    fn judge(&self) -> usize {
        let records = std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner));
        for records in &records {
            judged(none_overlap(records, LIMIT));
            if !matches!(self.kind, SoakKind::Permits { .. }) {
                // A light permit may leave before an earlier one.
                judged(in_order_of_tokens(records));
            }
        }
        records.iter().map(Vec::len).sum()
    }
}

fn name(key: usize) -> String {
    format!("{KEY}-{key}")
}

pub(crate) async fn pause(chance: &mut StdRng, range: Range<Duration>) {
    sleep(chance.random_range(range)).await;
}
