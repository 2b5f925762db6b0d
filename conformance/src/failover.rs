//! Processes that contend while servers are killed and others take over.

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
/// What a machine may be late by at a move or a takeover, beside the bound: less than a TTL in the long tier, which has the
/// sharp bounds. In the short one four programs and their servers share the machine: a step that takes 2.9 s alone
/// took 6.8 s there.
pub(crate) fn noise() -> Duration {
    let alone = Duration::from_secs(2);
    if is_long() { alone } else { alone + LATE }
}
const LIMIT: u32 = 3;
const TASKS: usize = 3;
/// So many overlaps are named of each key.
const NAMED: usize = 5;
/// What contends, and how many processes of each.
const LOADS: [(&str, SoakKind, usize); 3] = [
    ("mutex", SoakKind::Exclusive, 3),
    ("rwlock", SoakKind::ReadWrite, 3),
    ("permits", SoakKind::Permits { limit: LIMIT }, 2),
];

/// One failure of servers, on the clock of [`monotonic`].
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// What failed.
    pub what: &'static str,
    /// When they were killed, or cut off.
    pub killed: u64,
    /// When another had taken over, or they were given up.
    pub replaced: u64,
    /// What the servers may need for that, on a machine that is never late; nothing where nobody takes over.
    pub within: Option<Duration>,
}

impl Failover {
    fn took(&self) -> Duration {
        Duration::from_nanos(self.replaced - self.killed)
    }

    /// What is to be said of a takeover that took longer than it may.
    fn is_late(&self) -> Option<String> {
        let (took, within) = (self.took(), self.within? + noise());
        (took > within)
            .then(|| format!("{}: the servers took {took:?}, which is more than {within:?}", self.what))
    }
}

/// What was seen of one key.
struct KeySummary {
    key: String,
    grants: usize,
    // Who was inside at once, at each arrival that was one too many.
    overlaps: Vec<Vec<HoldRecord>>,
    refused: usize,
    // The longest time without a grant at each failure, and its bound.
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
        // The one that came nearest to its bound, which is of its own takeover.
        let nearest = without.iter().min_by_key(|(waited, bound)| bound.saturating_sub(*waited));
        if let Some((waited, bound)) = nearest {
            write!(f, "; nearest to its bound: {waited:.1?} of {bound:.1?}")?;
        }
        overlaps.iter().take(NAMED).try_for_each(|inside| write!(f, "\n  inside at once: {inside:?}"))
    }
}

/// Eight processes contend for a mutex, a read/write lock and permits, beside failures of servers
/// that `failures` causes and answers, which take `lasts` or somewhat more.
///
/// Where `forgets`, the servers may forget what they had acknowledged: holds may overlap then, which
/// is printed, and no fence may let two through in turns. Else none may overlap.
///
/// # Errors
/// What was wrong: an overlap, a takeover beyond [its own bound](Failover::within), a time without a grant above the
/// bound (the time of the takeover, a TTL, the time by which a server may be late in ending a lease, and four seconds
/// for the machine and its servers, some of which have just started), something left behind.
pub fn play<F: Future<Output = Vec<Failover>>>(
    testbed: ServerTestbed,
    runtime: &Runtime,
    lasts: Duration,
    forgets: bool,
    failures: impl FnOnce() -> F,
) -> Result<(), String> {
    under_load(testbed, runtime, lasts, forgets, failures).and_then(|judged| judged)
}

/// The failures of one play, by what a test calls them.
#[derive(Debug)]
pub struct Plan<F> {
    failures: Vec<F>,
    /// The time over which they are spread.
    pub lasts: Duration,
}

impl<F: Copy> Plan<F> {
    /// In the long tier 36 in ten minutes, by these turns: each comes equally often where there are 9 or 12 of them, and
    /// where more than half kill a leader, 20 are killed at least. Else those of the short tier, over this time. There is
    /// one at least.
    pub fn new(turns: &[F], short: &[F], lasts: Duration) -> Self {
        match is_long() {
            true => Self {
                failures: turns.iter().copied().cycle().take(36).collect(),
                lasts: Duration::from_secs(600),
            },
            false => Self { failures: short.to_vec(), lasts },
        }
    }

    /// Causes them one after the other, each with its number.
    ///
    /// # Panics
    /// Without any.
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

/// One play as [`main`] has it, and then what is to be said of it. An error: it did not come to its end.
pub(crate) fn under_load<F: Future<Output = Vec<Failover>>>(
    testbed: ServerTestbed,
    runtime: &Runtime,
    lasts: Duration,
    forgets: bool,
    failures: impl FnOnce() -> F,
) -> Result<Result<(), String>, String> {
    let (name, testbed): (_, &'static ServerTestbed) = (testbed.name, Box::leak(Box::new(testbed)));
    // Beyond the time of the takeover.
    let allowed = TTL + testbed.expiry_bound + LATE;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (begun, all_begun) = tokio::sync::oneshot::channel();
    let over = CancellationToken::new();
    let is_over = over.clone();
    let playing = on_thread(move || {
        // Failures may take longer than they were given.
        play_beside(lasts * 2, testbed, async |context| {
            let mut config = context.fixture.process_config().expect("a server has processes");
            config.ttl = TTL;
            // They are told when the failures are over, which may take longer than they were given.
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
            // The last of them may wait for servers that are not back yet.
            let ended = Mutex::new(Vec::new());
            let ends = children.into_iter().map(async |(key, child)| {
                // The bound of all children together, below, is shorter.
                let records = child.ends(patience * 2).await;
                ended.lock().expect("not poisoned").push(key);
                (key, records)
            });
            let Ok(rest) = timeout(patience, join_all(ends)).await else {
                let contents = timeout(PATIENCE, context.fixture.contents()).await;
                panic!("of the processes only these have ended: {ended:?}; on the server: {contents:#?}");
            };
            records.extend(rest);
            // What is still sent of their ends, and what a failure left, goes within a TTL.
            sleep(TTL).await;
            sender.send(records).expect("they are awaited");
        })
    })?;
    let failovers = runtime.block_on(async {
        // Each has held once: connecting has no time for servers that fail. Why they did not begin is said below.
        if all_begun.await.is_err() {
            return Vec::new();
        }
        sleep(TTL).await;
        let failovers = failures().await;
        // A grant may come as late as that after the last one.
        sleep(allowed).await;
        failovers
    });
    over.cancel();
    playing.join().expect("it catches panics")?;
    let records = receiver.recv().map_err(|_| "no records".to_owned())?;
    if failovers.is_empty() {
        return Ok(Err("nothing has failed".to_owned()));
    }
    for what in failovers.iter().map(|failure| failure.what).collect::<BTreeSet<_>>() {
        let alike = || failovers.iter().filter(|failure| failure.what == what);
        let (median, worst) = median_and_worst(alike().map(Failover::took));
        println!("{name}: {} times {what}: over after {median:.1?}, at most {worst:.1?}", alike().count());
    }
    println!("{name}: without a grant at most that time and {allowed:.1?}");
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

/// Of one time at the least.
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
            return Err(format!("{waited:?} without a grant at {failure:?}, which is more than {bound:?}"));
        }
        without.push((waited, bound));
    }
    let overlaps = overlaps(records, LIMIT);
    Ok(KeySummary { key: key.to_owned(), grants: records.len(), overlaps, refused: fenced.refused, without })
}

/// The longest time without a grant from an instant to the first grant after another; `None` where none
/// came. The `grants` rise.
pub(crate) fn longest_wait(grants: &[u64], begun: u64, over: u64) -> Option<Duration> {
    let next = *grants.iter().find(|from| **from > over)?;
    let within = grants.iter().copied().filter(|from| (begun..=next).contains(from));
    let waits = within.scan(begun, |last, grant| Some(grant - std::mem::replace(last, grant)));
    Some(Duration::from_nanos(waits.max().unwrap_or_default()))
}

/// Now, for a [`Failover`].
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
        assert!(verdict(&good, 10), "110 without a grant, where the servers took 100");
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
