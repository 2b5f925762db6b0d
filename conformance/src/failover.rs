//! Processes contend while servers are killed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::bounds::{LATE, PATIENCE};
use crate::cases::is_long;
use crate::child::{Child, Order, Soak, SoakKind};
use crate::fenced::fenced;
use crate::harness::{on_thread, play_beside};
use crate::hold_record::{HoldRecord, monotonic, none_overlap, overlaps};
use crate::testbeds::ServerTestbed;

/// The TTL of the processes.
pub const TTL: Duration = Duration::from_secs(3);
/// What the machine may add. In the long tier it is below a TTL. In the short tier four programs share the
/// machine: a step of 2.9 s alone took 6.8 s.
pub(crate) fn noise() -> Duration {
    let alone = Duration::from_secs(2);
    if is_long() { alone } else { alone + LATE }
}
const LIMIT: u32 = 3;
const TASKS: usize = 3;
const NAMED: usize = 5;
const LOADS: [(&str, SoakKind, usize); 3] = [
    ("mutex", SoakKind::Exclusive, 3),
    ("rwlock", SoakKind::ReadWrite, 3),
    ("permits", SoakKind::Permits { limit: LIMIT }, 2),
];

/// A failure of servers, on the clock [`monotonic`].
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// The kind of failure.
    pub what: &'static str,
    /// The time of the failure.
    pub killed: u64,
    /// The time of the takeover, or at which the servers were given up.
    pub replaced: u64,
    /// The limit of a takeover without delays of the machine.
    pub within: Option<Duration>,
}

impl Failover {
    fn took(&self) -> Duration {
        Duration::from_nanos(self.replaced - self.killed)
    }

    fn is_late(&self) -> Option<String> {
        let (took, within) = (self.took(), self.within? + noise());
        (took > within)
            .then(|| format!("{}: the servers took {took:?}, but at most {within:?} is allowed", self.what))
    }
}

struct KeySummary {
    key: String,
    grants: usize,
    // The holders at each start.
    overlaps: Vec<Vec<HoldRecord>>,
    refused: usize,
    // The longest time for each failure, and its bound.
    without: Vec<(Duration, Duration)>,
}

impl fmt::Display for KeySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, grants, overlaps, refused, without } = self;
        let (median, worst) = median_and_worst(without.iter().map(|(waited, _)| *waited));
        write!(
            f,
            "{key}: {grants} grants, {} plain overlaps, {refused} stale writes refused; \
             without a grant: median {median:.1?}, worst {worst:.1?} of {} failures",
            overlaps.len(),
            without.len()
        )?;
        let nearest = without.iter().min_by_key(|(waited, bound)| bound.saturating_sub(*waited));
        if let Some((waited, bound)) = nearest {
            write!(f, "; nearest to its bound: {waited:.1?} of {bound:.1?}")?;
        }
        overlaps.iter().take(NAMED).try_for_each(|inside| write!(f, "\n  held at once: {inside:?}"))
    }
}

/// Lets eight processes contend during the `failures` of servers, for about `lasts`. If `forgets`, acknowledged data may be lost:
/// holds may overlap, but a fence must separate their writes.
///
/// # Errors
/// An overlap; a takeover beyond [its bound](Failover::within); a time without a grant above the takeover, a TTL, the server's
/// delay at the end of a lease, and four seconds; leftovers.
pub fn play<F: Future<Output = Vec<Failover>>>(
    testbed: ServerTestbed,
    runtime: &Runtime,
    lasts: Duration,
    forgets: bool,
    failures: impl FnOnce() -> F,
) -> Result<(), String> {
    under_load(testbed, runtime, lasts, forgets, failures).and_then(|judged| judged)
}

/// The failures of one play.
#[derive(Debug)]
pub struct Plan<F> {
    failures: Vec<F>,
    /// The time for all failures.
    pub lasts: Duration,
}

impl<F: Copy> Plan<F> {
    /// Creates a plan. The long tier takes 36 failures from `turns` in ten minutes: each of 9 or 12 turns
    /// comes equally often, and at least 20 leaders are killed if most turns do that. The short tier plays
    /// `short`.
    pub fn new(turns: &[F], short: &[F], lasts: Duration) -> Self {
        match is_long() {
            true => Self {
                failures: turns.iter().copied().cycle().take(36).collect(),
                lasts: Duration::from_secs(600),
            },
            false => Self { failures: short.to_vec(), lasts },
        }
    }

    /// Causes the numbered failures in turn.
    pub async fn carry_out(&self, mut cause: impl AsyncFnMut(usize, F) -> Failover) -> Vec<Failover> {
        let (mut next, mut caused) = (Instant::now(), Vec::new());
        let each = self.lasts / u32::try_from(self.failures.len()).expect("few");
        for (number, failure) in self.failures.iter().enumerate() {
            sleep_until(next).await;
            next += each;
            caused.push(cause(number, *failure).await);
        }
        caused
    }
}

/// A verdict, or an error for a play without an end.
pub(crate) fn under_load<F: Future<Output = Vec<Failover>>>(
    testbed: ServerTestbed,
    runtime: &Runtime,
    lasts: Duration,
    forgets: bool,
    failures: impl FnOnce() -> F,
) -> Result<Result<(), String>, String> {
    let (name, testbed): (_, &'static ServerTestbed) = (testbed.name, Box::leak(Box::new(testbed)));
    let allowed = TTL + testbed.expiry_bound + LATE;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (begun, all_begun) = tokio::sync::oneshot::channel();
    let over = CancellationToken::new();
    let is_over = over.clone();
    let playing = on_thread(move || {
        play_beside(lasts * 2, testbed, async |context| {
            let mut config = context.fixture.process_config().expect("a server has processes");
            config.ttl = TTL;
            // Failures may last longer. The parent ends the processes then.
            let seconds = (lasts * 4).as_secs();
            let mut children = Vec::new();
            for (key, kind, processes) in LOADS {
                let contested = context.contested(key).await;
                let soak = Soak { contested, tasks: TASKS, seconds, kind, pairs_of: None, outlasts: true };
                children.extend((0..processes).map(|_| (key, Child::start(&config, &soak))));
            }
            let patience = lasts * 2 + PATIENCE;
            let first =
                children.iter_mut().map(async |(key, child)| (*key, vec![child.next_within(patience).await]));
            let mut records = join_all(first).await;
            begun.send(()).expect("they are awaited");
            is_over.cancelled().await;
            for (_, child) in &mut children {
                child.process.tell(Order::Release).await;
            }
            let ended = Mutex::new(Vec::new());
            let ends = children.into_iter().map(async |(key, child)| {
                let records = child.ends(patience * 2).await;
                ended.lock().expect("not poisoned").push(key);
                (key, records)
            });
            let Ok(rest) = timeout(patience, join_all(ends)).await else {
                let contents = timeout(PATIENCE, context.fixture.contents()).await;
                panic!("only these processes have ended: {ended:?}; on the server: {contents:#?}");
            };
            records.extend(rest);
            sleep(TTL).await;
            sender.send(records).expect("they are awaited");
        })
    })?;
    let failovers = runtime.block_on(async {
        // A connect does not survive failures, so each process holds before. An error is reported below.
        if all_begun.await.is_err() {
            return Vec::new();
        }
        sleep(TTL).await;
        let failovers = failures().await;
        sleep(allowed).await;
        failovers
    });
    over.cancel();
    playing.join().expect("it catches panics")?;
    let records = receiver.recv().map_err(|_| "no records".to_owned())?;
    if failovers.is_empty() {
        return Ok(Err("no failure has happened".to_owned()));
    }
    for what in failovers.iter().map(|failure| failure.what).collect::<BTreeSet<_>>() {
        let alike = || failovers.iter().filter(|failure| failure.what == what);
        let (median, worst) = median_and_worst(alike().map(Failover::took));
        println!(
            "{name}: {} times {what}: recovered after {median:.1?}, at most {worst:.1?}",
            alike().count()
        );
    }
    println!("{name}: the time without a grant may be {allowed:.1?} longer");
    let mut wrong: Vec<_> = failovers.iter().filter_map(Failover::is_late).collect();
    for (key, ..) in LOADS {
        let of_key = records.iter().filter(|(of, _)| *of == key).flat_map(|(_, records)| records);
        let of_key: Vec<_> = of_key.copied().collect();
        match judge(key, &of_key, &failovers, forgets, allowed) {
            Ok(seen) => println!("{name}, {seen}"),
            Err(why) => wrong.push(format!("{name}, {key}: {why}")),
        }
    }
    Ok(if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) })
}

fn median_and_worst(times: impl Iterator<Item = Duration>) -> (Duration, Duration) {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

fn judge(
    key: &str,
    records: &[HoldRecord],
    failovers: &[Failover],
    forgets: bool,
    allowed: Duration,
) -> Result<KeySummary, String> {
    if !forgets {
        none_overlap(records, LIMIT)?;
    }
    let fenced = fenced(records)?;
    if !forgets && fenced.refused > 0 {
        return Err(format!("{} writes were stale: tokens went back", fenced.refused));
    }
    let mut grants: Vec<_> = records.iter().map(|record| record.from).collect();
    grants.sort_unstable();
    let mut without = Vec::new();
    for failure in failovers {
        let waited = longest_wait(&grants, failure.killed, failure.replaced);
        let waited = waited.ok_or_else(|| format!("no grant after {failure:?}"))?;
        let bound = failure.took() + allowed;
        if waited > bound {
            return Err(format!(
                "{waited:?} without a grant at {failure:?}, but at most {bound:?} is allowed"
            ));
        }
        without.push((waited, bound));
    }
    let overlaps = overlaps(records, LIMIT);
    Ok(KeySummary { key: key.to_owned(), grants: records.len(), overlaps, refused: fenced.refused, without })
}

/// To the first grant after `over`. The `grants` rise.
pub(crate) fn longest_wait(grants: &[u64], begun: u64, over: u64) -> Option<Duration> {
    let next = *grants.iter().find(|from| **from > over)?;
    let within = grants.iter().copied().filter(|from| (begun..=next).contains(from));
    let waits = within.scan(begun, |last, grant| Some(grant - std::mem::replace(last, grant)));
    Some(Duration::from_nanos(waits.max().unwrap_or_default()))
}

/// Returns the time for a [`Failover`].
pub fn now() -> u64 {
    monotonic()
}

#[cfg(test)]
mod tests {
    use latchwork_core::Claim;

    use super::*;

    const FAILURE: Failover = Failover {
        what: "leader killed",
        killed: 100,
        replaced: 200,
        within: Some(Duration::from_nanos(100)),
    };

    #[test]
    fn the_longest_wait_is_between_grants_of_a_failure_alone() {
        let (begun, over) = (FAILURE.killed, FAILURE.replaced);
        let waits = |grants: &[u64]| longest_wait(grants, begun, over).map(|waited| waited.as_nanos());
        assert_eq!(waits(&[10, 99, 101, 230, 900]), Some(129));
        assert_eq!(waits(&[99, 160, 201]), Some(60));
        assert_eq!(waits(&[99, 300]), Some(200));
        assert_eq!(waits(&[99, 150, 200]), None, "nothing came after it");
    }

    #[test]
    fn a_wait_beyond_its_bound_and_two_at_once_are_found() {
        let hold = |from, to| HoldRecord { key: 0, claim: Claim::Exclusive, token: None, from, to };
        let verdict = |records: &[HoldRecord], allowed| {
            let allowed = Duration::from_nanos(allowed);
            judge("key", records, &[FAILURE], false, allowed).is_ok()
        };
        let good = [hold(10, 90), hold(210, 220)];
        assert!(verdict(&good, 10), "no grant for 110, and the servers were away for 100");
        assert!(!verdict(&good, 9));
        assert!(!verdict(&[hold(10, 90), hold(80, 95), hold(210, 220)], 10));
    }

    #[test]
    fn a_takeover_beyond_its_bound_is_found() {
        let late = u64::try_from(noise().as_nanos()).expect("short") + FAILURE.replaced;
        let is_late = |replaced| Failover { replaced, ..FAILURE }.is_late();
        assert_eq!(is_late(late), None, "at the bound");
        let why = is_late(late + 1).expect("beyond it");
        assert!(why.starts_with("leader killed: the servers took"), "{why}");
        assert_eq!(Failover { replaced: late + 1, within: None, ..FAILURE }.is_late(), None);
    }
}
