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

pub(super) const ELECTION: &str = "latchwork-election";
const LIMIT: u32 = 5;
const HEAVIEST: usize = 3;
/// More readers than can exist.
const READERS: u32 = 1 << 20;
const AT_ONCE: usize = 16;
const GIVES_UP_WITHIN: Duration = Duration::from_millis(40);
/// For the first acquisitions if none succeeded in time, and for the last ones.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(super) enum Play {
    Handoff(Recipe),
    Election,
    Mix {
        one_write_in: usize,
    },
    Permits,
    /// Drops the future of this percentage of acquisitions within [`GIVES_UP_WITHIN`].
    GiveUps {
        recipe: Recipe,
        percent: u32,
    },
}

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

    fn ask(self, contender: usize, turn: usize) -> Ask {
        match self {
            Play::Handoff(_) | Play::Election | Play::GiveUps { .. } => Ask::Alone,
            Play::Mix { one_write_in } if (contender + turn).is_multiple_of(one_write_in) => Ask::Alone,
            Play::Mix { .. } => Ask::Read,
            Play::Permits => Ask::Permits(((contender + turn) % HEAVIEST + 1) as u32),
        }
    }

    fn is_handed_over(self) -> bool {
        matches!(self, Play::Handoff(_) | Play::Election)
    }

    fn capacity(self) -> u32 {
        match self {
            Play::Handoff(_) | Play::Election | Play::GiveUps { .. } => 1,
            Play::Mix { .. } => READERS,
            Play::Permits => LIMIT,
        }
    }

    fn gives_up_after(self, chance: &mut StdRng) -> Option<Duration> {
        let Play::GiveUps { percent, .. } = self else { return None };
        chance.random_ratio(percent, 100).then(|| chance.random_range(Duration::ZERO..GIVES_UP_WITHIN))
    }

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
        // The machine may stall for the whole of a short time.
        let handoffs = self.play.is_handed_over() && self.contenders > 1;
        while !room.has_recorded(handoffs)
            && started.elapsed() < plan.time + PATIENCE
            && !tasks.iter().all(JoinHandle::is_finished)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        room.enter_phase(Phase::Over);
        let took = started.elapsed();
        // Read during the last acquisitions, so that requests and grants are of the same time.
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
            Err(format!("a contender was still waiting {PATIENCE:?} after the end").into())
        }
    }
}
