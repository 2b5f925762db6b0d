use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

use latchwork_core::Coordinator;
use tokio::sync::watch;

use crate::Result;
use crate::cost::Cost;
use crate::held::hold;
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::stats::Timings;
use crate::target::Target;

const TTL: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
const SAMPLE: usize = 100;
/// How much longer the locks are kept if the bystander has acquired nothing.
const PATIENCE: Duration = Duration::from_secs(20);

const PHASES: [&str; 4] = ["quiet", "opening", "kept", "closing"];

type PhaseSender = watch::Sender<usize>;

pub(super) async fn measure(target: &Target, count: usize, plan: &Plan) -> Result<Vec<Line>> {
    let (phase, phases) = watch::channel(0);
    let (serves, mut served) = watch::channel(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let standing_by = stand_by(target.open_with(TTL), phases, serves);
    let bystander = thread::spawn(move || runtime.block_on(standing_by));
    let client = target.open_with(TTL).await?;
    let (empty, mut took) = (Cost::own(), [Duration::ZERO; 4]);
    in_phase(&phase, 0, &mut took, tokio::time::sleep(QUIET.min(plan.held_time))).await;
    let holds = in_phase(&phase, 1, &mut took, hold(&client, count, "many")).await?;
    let (own, server) = (Cost::own(), target.pid().and_then(Cost::of));
    let kept = async {
        tokio::time::sleep(plan.held_time).await;
        let once = served.wait_for(|phase| *phase >= Some(2));
        let _ = tokio::time::timeout(PATIENCE, once).await;
    };
    in_phase(&phase, 2, &mut took, kept).await;
    let (own_after, server_after) = (Cost::own(), target.pid().and_then(Cost::of));
    let lost: Vec<_> = holds.iter().filter_map(|hold| hold.check().err()).collect();
    if let Some(first) = lost.first() {
        return Err(
            format!("{} of {count} were lost while they were held, one so: {first}", lost.len()).into()
        );
    }
    let closed = in_phase(&phase, 3, &mut took, client.close()).await;
    drop(phase);
    let Seen { timings, failed } = bystander.join().map_err(|_| "the bystander panicked")??;
    drop(holds);
    let left = left_of(&target.open_with(TTL).await?, count).await?;

    let seconds = took[2].as_secs_f64();
    let lines = PHASES.iter().zip(&timings).zip(took).map(|((phase, timings), took)| {
        let param = format!("{count} locks, {phase}");
        let line = Line::new(target.name(), Recipe::Mutex.peer(), "MANY", &param, "us").timed(timings);
        Line { value: Some(took.as_secs_f64()), ..line }
    });
    let unanswered = |phase: usize| match failed[phase] {
        0 => String::new(),
        failed => format!("another had no answer in time: {failed}; "),
    };
    let mut lines: Vec<_> = lines.collect();
    lines[2] = Line {
        client_cpu_pct: Cost::share(own, own_after, seconds),
        server_cpu_pct: Cost::share(server, server_after, seconds),
        client_bytes_per_lock: Cost::bytes_each(empty, own, count),
        ..lines[2].clone()
    };
    for (phase, line) in lines.iter_mut().enumerate() {
        line.note = Some(unanswered(phase)).filter(|note| !note.is_empty());
    }
    let closed = closed.map_or_else(|error| error.to_string(), |()| "closed".to_owned());
    lines[3].note = Some(format!("{}{closed}; {left} of {SAMPLE} locks are not free", unanswered(3)));
    Ok(lines)
}

async fn in_phase<T>(
    phase: &PhaseSender,
    number: usize,
    took: &mut [Duration; 4],
    work: impl Future<Output = T>,
) -> T {
    phase.send_replace(number);
    let begun = Instant::now();
    let done = work.await;
    took[number] = begun.elapsed();
    done
}

/// Counts the locks, of a sample, that another client does not get at once.
async fn left_of(client: &Coordinator, count: usize) -> Result<usize> {
    let mut left = 0;
    for number in (0..count).step_by((count / SAMPLE).max(1)).take(SAMPLE) {
        match client.mutex(format!("many-{number}"))?.try_acquire().await? {
            Some(hold) => drop(hold.release().await?),
            None => left += 1,
        }
    }
    client.close().await?;
    Ok(left)
}

struct Seen {
    timings: [Timings; 4],
    // Tries without an answer in time.
    failed: [u64; 4],
}

/// `serves` gets the phase of the last acquisition.
async fn stand_by(
    opening: impl Future<Output = Result<Coordinator>>,
    phases: watch::Receiver<usize>,
    serves: watch::Sender<Option<usize>>,
) -> Result<Seen> {
    let client = opening.await?;
    let mutex = client.mutex("many-bystander")?;
    let (mut timings, mut failed) = ([(); 4].map(|()| Timings::new()), [0; 4]);
    while phases.has_changed().is_ok() {
        // A turn counts for the phase in which it began.
        let (phase, begun) = (*phases.borrow(), Instant::now());
        let turn = async {
            let hold = mutex.acquire().await?;
            timings[phase].record(begun.elapsed());
            serves.send_replace(Some(phase));
            hold.release().await
        };
        match turn.await {
            Ok(_) => {}
            Err(error) if error.may_pass() => failed[phase] += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    client.close().await?;
    Ok(Seen { timings, failed })
}
