//! Processes contend while servers are killed and others take over.

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
/// Returns the time that the machine may add to the bound of a move or a takeover. The long tier has sharp bounds: it is less
/// than a TTL there. In the short tier four programs and their servers share the machine: a step that takes 2.9 s alone took
/// 6.8 s there.
pub(crate) fn noise() -> Duration {
    let alone = Duration::from_secs(2);
    if is_long() { alone } else { alone + LATE }
}
const LIMIT: u32 = 3;
const TASKS: usize = 3;
/// The number of overlaps that the report shows for each key.
const NAMED: usize = 5;
/// The loads, and their numbers of processes.
const LOADS: [(&str, SoakKind, usize); 3] = [
    ("mutex", SoakKind::Exclusive, 3),
    ("rwlock", SoakKind::ReadWrite, 3),
    ("permits", SoakKind::Permits { limit: LIMIT }, 2),
];

/// One failure of servers. Times are on the clock [`monotonic`].
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// The kind of failure.
    pub what: &'static str,
    /// The time at which the servers were killed or cut off.
    pub killed: u64,
    /// The time at which another server had taken over, or the servers were given up.
    pub replaced: u64,
    /// The time that a takeover may need on a machine without delays. `None` without a takeover.
    pub within: Option<Duration>,
}

impl Failover {
    fn took(&self) -> Duration {
        Duration::from_nanos(self.replaced - self.killed)
    }

    /// Returns a message if the takeover took longer than it may.
    fn is_late(&self) -> Option<String> {
        let (took, within) = (self.took(), self.within? + noise());
        (took > within)
            .then(|| format!("{}: the servers took {took:?}, but at most {within:?} is allowed", self.what))
    }
}

/// The observations of one key.
struct KeySummary {
    key: String,
    grants: usize,
    // The holders at each start of a hold that overlapped.
    overlaps: Vec<Vec<HoldRecord>>,
    refused: usize,
    // For each failure, the longest time without a grant, and its bound.
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
        // The time nearest to the bound of its takeover.
        let nearest = without.iter().min_by_key(|(waited, bound)| bound.saturating_sub(*waited));
        if let Some((waited, bound)) = nearest {
            write!(f, "; nearest to its bound: {waited:.1?} of {bound:.1?}")?;
        }
        overlaps.iter().take(NAMED).try_for_each(|inside| write!(f, "\n  held at once: {inside:?}"))
    }
}

/// Lets eight processes contend for a mutex, a read/write lock and permits while `failures` causes failures of servers and
/// returns them. The failures take `lasts` or somewhat longer.
///
/// If `forgets`, the servers may lose acknowledged data. Then holds may overlap, which is printed, but a fence must separate
/// their writes. Otherwise holds must not overlap.
///
/// # Errors
/// An overlap; a takeover beyond [its bound](Failover::within); a time without a grant above the bound (the time of the
/// takeover, a TTL, the delay of the server at the end of a lease, and four seconds for the machine and its servers, some of
/// which have just started); data left on the server.
pub fn play<F: Future<Output = Vec<Failover>>>(
    testbed: ServerTestbed,
    runtime: &Runtime,
    lasts: Duration,
    forgets: bool,
    failures: impl FnOnce() -> F,
) -> Result<(), String> {
    under_load(testbed, runtime, lasts, forgets, failures).and_then(|judged| judged)
}

/// The failures of one play, by their names in a test.
#[derive(Debug)]
pub struct Plan<F> {
    failures: Vec<F>,
    /// The time in which they happen.
    pub lasts: Duration,
}

impl<F: Copy> Plan<F> {
    /// Creates the failures of a play. In the long tier there are 36 in ten minutes, by `turns`: each of 9 or 12 turns comes
    /// equally often, and if more than half of the turns kill a leader, at least 20 leaders are killed. The short tier has
    /// the failures of `short`, in the time `lasts`. There is at least one failure.
    pub fn new(turns: &[F], short: &[F], lasts: Duration) -> Self {
        match is_long() {
            true => Self {
                failures: turns.iter().copied().cycle().take(36).collect(),
                lasts: Duration::from_secs(600),
            },
            false => Self { failures: short.to_vec(), lasts },
        }
    }

    /// Causes the failures one after the other; each gets its number.
    ///
    /// # Panics
    /// If the plan has no failure.
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

/// Runs one play, and returns its verdict. An error means that the play did not reach its end.
pub(crate) fn under_load<F: Future<Output = Vec<Failover>>>(
    testbed: ServerTestbed,
    runtime: &Runtime,
    lasts: Duration,
    forgets: bool,
    failures: impl FnOnce() -> F,
) -> Result<Result<(), String>, String> {
    let (name, testbed): (_, &'static ServerTestbed) = (testbed.name, Box::leak(Box::new(testbed)));
    // In addition to the time of the takeover.
    let allowed = TTL + testbed.expiry_bound + LATE;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (begun, all_begun) = tokio::sync::oneshot::channel();
    let over = CancellationToken::new();
    let is_over = over.clone();
    let playing = on_thread(move || {
        // Failures may take longer than the given time.
        play_beside(lasts * 2, testbed, async |context| {
            let mut config = context.fixture.process_config().expect("a server has processes");
            config.ttl = TTL;
            // The parent ends the processes after the failures, which may take longer than the given time.
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
            // The last processes may wait for servers that do not work yet.
            let ended = Mutex::new(Vec::new());
            let ends = children.into_iter().map(async |(key, child)| {
                // The bound of all children, below, is shorter.
                let records = child.ends(patience * 2).await;
                ended.lock().expect("not poisoned").push(key);
                (key, records)
            });
            let Ok(rest) = timeout(patience, join_all(ends)).await else {
                let contents = timeout(PATIENCE, context.fixture.contents()).await;
                panic!("only these processes have ended: {ended:?}; on the server: {contents:#?}");
            };
            records.extend(rest);
            // Late requests of the processes, and leftovers of a failure, are gone within a TTL.
            sleep(TTL).await;
            sender.send(records).expect("they are awaited");
        })
    })?;
    let failovers = runtime.block_on(async {
        // Each process has held once before the failures start, because a connect does not survive them. An error is reported
        // below.
        if all_begun.await.is_err() {
            return Vec::new();
        }
        sleep(TTL).await;
        let failovers = failures().await;
        // A grant may come this late after the last failure.
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

/// Returns the median and the longest of at least one time.
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

/// Returns the longest time without a grant, from one instant to the first grant after another. `None` if no grant came. The
/// `grants` rise.
pub(crate) fn longest_wait(grants: &[u64], begun: u64, over: u64) -> Option<Duration> {
    let next = *grants.iter().find(|from| **from > over)?;
    let within = grants.iter().copied().filter(|from| (begun..=next).contains(from));
    let waits = within.scan(begun, |last, grant| Some(grant - std::mem::replace(last, grant)));
    Some(Duration::from_nanos(waits.max().unwrap_or_default()))
}

/// Returns the current time for a [`Failover`].
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
