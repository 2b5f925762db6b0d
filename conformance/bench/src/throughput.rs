//! M2: 64 tasks on 64 keys over one client.

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::{Ask, Recipe, release};
use crate::target::Target;

const TASKS: usize = 64;

pub(super) async fn measure(target: &Target, recipe: Recipe, plan: &Plan) -> Result<Vec<Line>> {
    with_tasks(target, recipe, TASKS, plan).await
}

/// So many tasks, each on a key of its own.
pub(super) async fn with_tasks(
    target: &Target,
    recipe: Recipe,
    count: usize,
    plan: &Plan,
) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let begin = Instant::now() + plan.warm;
    let end = begin + plan.time;
    let mut tasks = Vec::with_capacity(count);
    for task in 0..count {
        let lock = recipe.lock(&client, &format!("m2-{task}"))?;
        tasks.push(tokio::spawn(async move {
            let mut pairs = 0_u64;
            loop {
                let hold = lock.acquire(Ask::Alone).await?;
                release(&*hold).await?;
                let now = Instant::now();
                if now >= end {
                    return Result::Ok(pairs);
                }
                pairs += u64::from(now >= begin);
            }
        }));
    }
    let pairs: u64 = try_join_all(tasks).await?.into_iter().sum::<Result<u64>>()?;
    client.close().await?;
    let line = Line::new(target.name(), recipe.peer(), "M2", &format!("{count} tasks"), "pairs/s");
    Ok(vec![Line { value: Some(per_second(pairs, plan.time)), n: Some(pairs), ..line }])
}

pub(super) fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
