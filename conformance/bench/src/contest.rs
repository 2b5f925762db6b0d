//! Contenders with a client each on one key: hand-offs (M3), read/write mixes, weighted permits,
//! and waiters that give up.

mod free;
mod room;
mod tally;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use latchwork_core::Coordinator;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;

use self::room::{Phase, Room};
use self::tally::Tally;
use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::{Ask, Lock, Recipe};
use crate::requests::Counted;
use crate::stats::Timings;
use crate::target::Target;

/// An election among the peers.
pub(super) const ELECTION: &str = "latchwork-election";
/// The permits of the semaphore, and the heaviest claim on it.
const LIMIT: u32 = 5;
const HEAVIEST: usize = 3;
/// More readers than there will ever be: a writer takes the room of all of them.
const READERS: u32 = 1 << 20;
/// Clients that connect at a time.
const AT_ONCE: usize = 16;
/// The longest wait of a contender that will give up.
const GIVES_UP_WITHIN: Duration = Duration::from_millis(40);
/// How long the first ones may take to come through where none did in time, and the last ones after the end.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is contended for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Play {
    Handoff(Recipe),
    /// Candidates that lead and resign.
    Election,
    /// A read/write lock; of so many acquisitions one writes.
    Mix {
        one_write_in: usize,
    },
    /// A semaphore of [`LIMIT`] permits, claims of 1 to [`HEAVIEST`].
    Permits,
    /// Of so many per cent of the acquisitions the future is dropped within [`GIVES_UP_WITHIN`], if
    /// it is not done by then.
    GiveUps {
        recipe: Recipe,
        percent: u32,
    },
}

/// So many contenders, releasing at once and trying again at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    pub(super) play: Play,
    pub(super) contenders: usize,
}

impl Play {
    fn peer(self) -> &'static str {
        match self {
            Play::Handoff(recipe) | Play::GiveUps { recipe, .. } => recipe.peer(),
            Play::Election => ELECTION,
            Play::Mix { .. } => "latchwork-rwlock",
            Play::Permits => "latchwork-semaphore",
        }
    }

    fn measure(self) -> &'static str {
        match self {
            Play::Handoff(_) => "M3",
            Play::Election => "ELECTION",
            Play::Mix { .. } => "RW",
            Play::Permits => "PERMITS",
            Play::GiveUps { .. } => "GIVEUPS",
        }
    }

    fn lock(self, client: &Coordinator) -> Result<Lock> {
        Ok(match self {
            Play::Handoff(recipe) => recipe.lock(client, "m3")?,
            Play::GiveUps { recipe, .. } => recipe.lock(client, "give-ups")?,
            Play::Election => Lock::Election(client.election("election")?),
            Play::Mix { .. } => Lock::RwLock(client.rwlock("mix")?),
            Play::Permits => Lock::Semaphore(client.semaphore("permits", LIMIT)?),
        })
    }

    /// What a contender asks for at its n-th turn.
    fn ask(self, contender: usize, turn: usize) -> Ask {
        match self {
            Play::Handoff(_) | Play::Election | Play::GiveUps { .. } => Ask::Alone,
            Play::Mix { one_write_in } if (contender + turn).is_multiple_of(one_write_in) => Ask::Alone,
            Play::Mix { .. } => Ask::Read,
            Play::Permits => Ask::Permits(((contender + turn) % HEAVIEST + 1) as u32),
        }
    }

    /// Whether the time of a hand-off is measured.
    fn is_handed_over(self) -> bool {
        matches!(self, Play::Handoff(_) | Play::Election)
    }

    /// How much may be inside at once.
    fn capacity(self) -> u32 {
        match self {
            Play::Handoff(_) | Play::Election | Play::GiveUps { .. } => 1,
            Play::Mix { .. } => READERS,
            Play::Permits => LIMIT,
        }
    }

    /// After how long an acquisition is given up, if it is.
    fn gives_up_after(self, chance: &mut StdRng) -> Option<Duration> {
        let Play::GiveUps { percent, .. } = self else { return None };
        chance.random_ratio(percent, 100).then(|| chance.random_range(Duration::ZERO..GIVES_UP_WITHIN))
    }

    /// How much of the room a hold takes.
    fn weight(self, ask: Ask) -> u32 {
        match ask {
            Ask::Alone => self.capacity(),
            Ask::Read => 1,
            Ask::Permits(weight) => weight,
        }
    }
}

impl Contest {
    pub(super) async fn measure(&self, target: &Target, plan: &Plan) -> Result<Vec<Line>> {
        // Connected before the clock runs.
        let clients: Vec<_> =
            stream::iter(0..self.contenders).map(|_| target.open()).buffered(AT_ONCE).try_collect().await?;
        let room = Arc::new(Room::new(self.play.capacity()));
        let mut tasks = Vec::with_capacity(clients.len());
        for (contender, client) in clients.iter().enumerate() {
            let (play, lock, room) = (self.play, self.play.lock(client)?, Arc::clone(&room));
            tasks.push(tokio::spawn(contend(play, lock, room, contender)));
        }
        tokio::time::sleep(plan.warm).await;
        let before = target.counter().read().await?;
        let started = std::time::Instant::now();
        room.enter_phase(Phase::Recorded);
        tokio::time::sleep(plan.time).await;
        // A short time may pass while the machine stalls: it is longer then, up to something to show.
        let handoffs = self.play.is_handed_over() && self.contenders > 1;
        while !room.has_recorded(handoffs)
            && started.elapsed() < plan.time + PATIENCE
            && !tasks.iter().all(JoinHandle::is_finished)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        room.enter_phase(Phase::Over);
        let took = started.elapsed();
        // Read while the last ones come through: requests and grants are of the same time, but for
        // those under way.
        let after = target.counter().read().await?;
        let tallies = all_done(tasks).await?;
        try_join_all(clients.iter().map(Coordinator::close)).await?;
        Ok(self.lines(target.name(), &tallies, &room, took, (before, after)))
    }

    fn lines(
        &self,
        server: &str,
        tallies: &[Tally],
        room: &Room,
        took: Duration,
        (before, after): (Option<Counted>, Option<Counted>),
    ) -> Vec<Line> {
        let (play, param) = (self.play, self.to_string());
        // The peers' parameter is the number alone.
        let param = param.split_once(' ').map_or("", |(_, param)| param);
        let param = match play {
            Play::Handoff(_) | Play::Election => format!("W={}", self.contenders),
            _ => param.to_owned(),
        };
        let line = |what: &str, unit| {
            Line::new(server, play.peer(), &format!("{}_{what}", play.measure()), &param, unit)
        };
        let granted = tallies.iter().map(|tally| tally.grants).sum::<u64>();
        let n = Some(granted);
        let (least, most) = Tally::extremes(tallies);
        let handoffs = play.is_handed_over().then(|| {
            line("handoff", "us").timed(&Timings::of(tallies.iter().flat_map(|tally| &tally.handoffs)))
        });
        let free = matches!(play, Play::GiveUps { .. }).then(|| {
            let free = room.free();
            let (spells, sum) = (Timings::of(&free), free.iter().sum::<Duration>());
            let share = 100.0 * sum.as_secs_f64() / took.as_secs_f64();
            Line { value: Some(share), ..line("free", "us; value: % of the time").timed(&spells) }
        });
        let grants = Line {
            value: Some(granted as f64 / took.as_secs_f64()),
            n,
            self_regrants: Some(tallies.iter().map(|tally| tally.self_regrants).sum()),
            overlaps: Some(room.overlaps()),
            ..line("grants", "grants/s")
        };
        let fair = Line {
            value: (least > 0).then(|| most as f64 / least as f64),
            min: Some(least as f64),
            max: Some(most as f64),
            starved: Some(tallies.iter().filter(|tally| tally.grants == 0).count() as u64),
            n,
            ..line("fair", "max/min grants")
        };
        let asked = Line { measure: "M4".to_owned(), ..line("", "server requests/acquisition") };
        let asked = Counted::per_acquisition(asked, before, after, granted);
        let waits = line("wait", "us").timed(&Timings::of(tallies.iter().flat_map(|tally| &tally.waits)));
        [grants].into_iter().chain(handoffs).chain(free).chain([waits, fair]).chain(asked).collect()
    }
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contenders = self.contenders;
        match self.play {
            Play::Handoff(recipe) => write!(f, "M3 {recipe} W={contenders}"),
            Play::Election => write!(f, "ELECTION W={contenders}"),
            Play::Mix { one_write_in } => {
                let writes = 100 / one_write_in;
                write!(f, "RW {}/{writes} W={contenders}", 100 - writes)
            }
            Play::Permits => write!(f, "PERMITS 1..{HEAVIEST} of {LIMIT} W={contenders}"),
            Play::GiveUps { percent, .. } => write!(f, "GIVEUPS {percent} % W={contenders}"),
        }
    }
}

async fn contend(play: Play, lock: Lock, room: Arc<Room>, contender: usize) -> Result<Tally> {
    let mut tally = Tally::default();
    // The same give-ups in every run.
    let mut chance = StdRng::seed_from_u64(contender as u64);
    for turn in 0.. {
        if room.phase() == Phase::Over {
            break;
        }
        let ask = play.ask(contender, turn);
        let weight = play.weight(ask);
        let gives_up = play.gives_up_after(&mut chance);
        let asked = room.asks();
        let acquiring = lock.acquire(ask);
        let acquired = match gives_up {
            None => Some(acquiring.await),
            Some(after) => tokio::time::timeout(after, acquiring).await.ok(),
        };
        let Some(hold) = acquired else {
            room.gives_up();
            continue;
        };
        let hold = hold?;
        let (granted, last) = room.enter(weight);
        if room.phase() == Phase::Recorded {
            let handed_over = tally.granted(contender, granted - asked, last, granted);
            room.records(handed_over);
        }
        room.leave(weight, contender);
        hold.release().await?;
    }
    Ok(tally)
}

async fn all_done(tasks: Vec<JoinHandle<Result<Tally>>>) -> Result<Vec<Tally>> {
    let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
    match tokio::time::timeout(PATIENCE, try_join_all(tasks)).await {
        Ok(tallies) => tallies?.into_iter().collect(),
        Err(_) => {
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
            Err(format!("a contender has not come through {PATIENCE:?} after the end").into())
        }
    }
}
