use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::{Ask, Recipe};
use crate::target::Target;

pub(super) const TASKS: usize = 64;

pub(super) async fn measure(target: &Target, recipe: Recipe, count: usize, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let window = Window::after(plan);
    let mut tasks = Vec::with_capacity(count);
    for task in 0..count {
        let lock = recipe.lock(&client, &format!("m2-{task}"))?;
        let window = window.clone();
        tasks.push(tokio::spawn(async move {
            let mut done = Done::default();
            loop {
                let hold = lock.acquire(Ask::Alone).await?;
                hold.release().await?;
                if !window.goes_on(&mut done) {
                    return Result::Ok(done);
                }
            }
        }));
    }
    let done = try_join_all(tasks).await?.into_iter().collect::<Result<Vec<_>>>()?;
    let (pairs, took) = window.sum(done);
    client.close().await?;
    let line = Line::new(target.name(), recipe.peer(), "M2", &format!("{count} tasks"), "pairs/s");
    Ok(vec![Line { value: Some(per_second(pairs, took)), n: Some(pairs), ..line }])
}

/// The time in which work counts, longer if the machine stalls: until there is a result.
#[derive(Clone)]
pub(super) struct Window {
    begin: Instant,
    end: Instant,
    any: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Done {
    times: u64,
    last: Option<Instant>,
}

impl Window {
    pub(super) fn after(plan: &Plan) -> Self {
        let begin = Instant::now() + plan.warm;
        Self { begin, end: begin + plan.time, any: Arc::default() }
    }

    /// Records one completion. Returns whether to continue.
    pub(super) fn goes_on(&self, done: &mut Done) -> bool {
        let now = Instant::now();
        let any = self.any.load(Ordering::Relaxed);
        if now >= self.end && any {
            return false;
        }
        if now >= self.begin {
            (done.times, done.last) = (done.times + 1, Some(now));
            if !any {
                self.any.store(true, Ordering::Relaxed);
            }
        }
        true
    }

    pub(super) fn sum(&self, all: impl IntoIterator<Item = Done>) -> (u64, Duration) {
        let (mut times, mut end) = (0, self.end);
        for done in all {
            times += done.times;
            end = done.last.map_or(end, |last| last.max(end));
        }
        (times, end - self.begin)
    }
}

pub(super) fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
