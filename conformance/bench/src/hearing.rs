mod stage;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use latchwork_core::Coordinator;
use latchwork_core::backend::VersionedValue;
use latchwork_core::recipes::{CountDownLatch, SharedValue, Watch};

use self::stage::{Cast, Fire, play};
use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::cells::{self, Hear, Write};
use crate::raw::{Pair, SAME, Subject};
use crate::requests::Counted;
use crate::target::Target;
use crate::turns::{self, ServerTerms};

const WAITERS: usize = 16;
const CACHED: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Opened,
    Written,
}

impl Event {
    pub(super) fn measure(self) -> &'static str {
        match self {
            Event::Opened => "LATCH",
            Event::Written => "VALUE",
        }
    }

    fn peer(self) -> &'static str {
        match self {
            Event::Opened => "latchwork-latch",
            Event::Written => "latchwork-value",
        }
    }

    fn write(self) -> Write {
        match self {
            Event::Opened => Write::OnVersion,
            Event::Written => Write::Anyhow,
        }
    }

    /// The request without waiters.
    fn pair(self, client: &Coordinator) -> Result<Box<dyn Pair>> {
        Ok(match self {
            // More than the benchmark can count down.
            Event::Opened => Box::new(client.count_down_latch("alone", u32::MAX)?),
            Event::Written => Box::new(client.shared_value("alone")?),
        })
    }

    /// The measure, and parameter and unit of the server's requests.
    fn alone(self) -> [&'static str; 3] {
        match self {
            Event::Opened => ["LATCH_count", "count", "server requests/count-down"],
            Event::Written => ["VALUE_write", "write", "server requests/write"],
        }
    }

    fn fire(self, client: &Coordinator) -> Result<Box<dyn Fire>> {
        Ok(match self {
            Event::Opened => Box::new(latch(client)?),
            Event::Written => Box::new(value(client)?),
        })
    }

    async fn hear(self, client: &Coordinator) -> Result<Box<dyn Hear>> {
        Ok(match self {
            Event::Opened => Box::new(latch(client)?),
            Event::Written => Box::new(value(client)?.watch().await?),
        })
    }
}

pub(super) async fn measure(target: &Target, event: Event, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let mut subjects = vec![Subject { peer: event.peer(), pair: event.pair(&client)? }];
    if plan.raw {
        let same = cells::writing(target, "alone", event.write()).await?;
        subjects.extend(same.map(|pair| Subject { peer: SAME, pair }));
    }
    let mut lines = turns::measure(subjects, plan, &ServerTerms::of(target, event.alone())).await?;
    if event == Event::Written {
        lines.extend(cached(target, &client).await?);
    }

    let clients = try_join_all((0..WAITERS).map(|_| target.open())).await?;
    let hearers = try_join_all(clients.iter().map(|client| event.hear(client))).await?;
    let mut casts = vec![Cast { peer: event.peer(), fire: event.fire(&client)?, hearers }];
    if plan.raw {
        casts.extend(raw(target, event).await?);
    }
    let timed = play(&mut casts, plan).await?;
    drop(casts);
    let param = format!("N={WAITERS}");
    let line = |peer| Line::new(target.name(), peer, event.measure(), &param, "us");
    lines.extend(timed.iter().map(|(peer, timings)| line(peer).timed(timings)));
    try_join_all(clients.iter().chain([&client]).map(Coordinator::close)).await?;
    Ok(lines)
}

async fn raw(target: &Target, event: Event) -> Result<Option<Cast>> {
    let Some(writing) = cells::writing(target, "heard", event.write()).await? else { return Ok(None) };
    let hearers = (0..WAITERS).map(|_| cells::watching(target, "heard", event.write()));
    let hearers = try_join_all(hearers).await?.into_iter().flatten().collect();
    Ok(Some(Cast { peer: SAME, fire: Box::new(writing), hearers }))
}

async fn cached(target: &Target, client: &Coordinator) -> Result<Option<Line>> {
    let watch = client.shared_value("alone")?.watch().await?;
    let before = target.counter().read().await?;
    for _ in 0..CACHED {
        watch.latest()?.ok_or("the value is gone")?;
    }
    let after = target.counter().read().await?;
    let line =
        Line::new(target.name(), Event::Written.peer(), "M4", "cached read", "server requests/cached read");
    Ok(Counted::per_acquisition(line, before, after, CACHED))
}

fn latch(client: &Coordinator) -> Result<CountDownLatch> {
    Ok(client.count_down_latch("heard", 2)?)
}

fn value(client: &Coordinator) -> Result<SharedValue> {
    Ok(client.shared_value("heard")?)
}

#[async_trait]
impl Pair for CountDownLatch {
    async fn once(&mut self) -> Result<()> {
        Ok(self.count_down().await.map(drop)?)
    }
}

#[async_trait]
impl Pair for SharedValue {
    async fn once(&mut self) -> Result<()> {
        Ok(self.write("written").await.map(drop)?)
    }
}

#[async_trait]
impl Fire for CountDownLatch {
    /// Leaves one count-down, which knows the version.
    async fn prepare(&mut self) -> Result<()> {
        self.delete().await?;
        self.once().await
    }

    async fn fire(&mut self, _round: u64) -> Result<()> {
        match self.count_down().await? {
            0 => Ok(()),
            missing => Err(format!("the latch still needs {missing} count-downs, expected 1").into()),
        }
    }
}

#[async_trait]
impl Fire for SharedValue {
    async fn fire(&mut self, round: u64) -> Result<()> {
        Ok(self.write(round.to_string()).await.map(drop)?)
    }
}

#[async_trait]
impl Fire for Box<dyn Pair> {
    async fn fire(&mut self, _round: u64) -> Result<()> {
        self.once().await
    }
}

#[async_trait]
impl Hear for CountDownLatch {
    async fn hear(&mut self, _round: u64) -> Result<()> {
        Ok(self.wait().await?)
    }
}

#[async_trait]
impl Hear for Watch<Option<VersionedValue>> {
    async fn hear(&mut self, round: u64) -> Result<()> {
        let round = round.to_string();
        loop {
            let value = self.changed().await?;
            if value.is_some_and(|cell| *cell.value == *round.as_bytes()) {
                return Ok(());
            }
        }
    }
}
