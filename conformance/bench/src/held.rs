use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use latchwork_core::Coordinator;
use latchwork_core::recipes::MutexGuard;

use crate::Result;
use crate::cost::Cost;
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::requests::Counted;
use crate::target::Target;

const TTL: Duration = Duration::from_secs(30);
const AT_ONCE: usize = 64;

pub(super) async fn measure(target: &Target, count: usize, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open_with(TTL).await?;
    // Fixed costs of a client do not count for its locks.
    for warm in hold(&client, AT_ONCE, "warm").await? {
        warm.release().await?;
    }
    let empty = Cost::own();
    let started = Instant::now();
    let holds = hold(&client, count, "m5").await?;
    let acquired = started.elapsed();

    let (before, server, own) =
        (target.counter().read().await?, target.pid().and_then(Cost::of), Cost::own());
    let started = Instant::now();
    // The idle time itself is measured.
    tokio::time::sleep(plan.held_time).await;
    let seconds = started.elapsed().as_secs_f64();
    let (server_after, own_after) = (target.pid().and_then(Cost::of), Cost::own());
    let after = target.counter().read().await?;
    if let Some(lost) = holds.iter().find(|hold| !hold.is_held()) {
        return Err(format!("{} was lost while it was held", lost.key()).into());
    }
    client.close().await?;

    let param = format!("{count} held");
    let line = Line::new(target.name(), Recipe::Mutex.peer(), "M5", &param, "server commands/s while idle");
    let line = Counted::per_second(line, before, after, seconds);
    Ok(vec![Line {
        value: line.value.or(Some(0.0)),
        n: Some(count as u64),
        acquire_all_s: Some(acquired.as_secs_f64()),
        server_cpu_pct: Cost::share(server, server_after, seconds),
        client_cpu_pct: Cost::share(own, own_after, seconds),
        client_bytes_per_lock: Cost::bytes_each(empty, own, count),
        ..line
    }])
}

pub(super) async fn hold(client: &Coordinator, count: usize, name: &str) -> Result<Vec<MutexGuard>> {
    let joins = stream::iter(0..count).map(|number| {
        let mutex = client.mutex(format!("{name}-{number}"));
        async move { mutex?.acquire().await }
    });
    Ok(joins.buffer_unordered(AT_ONCE).try_collect().await?)
}
