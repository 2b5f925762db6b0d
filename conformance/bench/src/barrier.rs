//! BARRIER: many members of one barrier pass together; the cost of the server while they wait for the last
//! one.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use latchwork_core::Coordinator;
use tokio::task::JoinSet;

use crate::Result;
use crate::cost::Cost;
use crate::line::Line;
use crate::plan::Plan;
use crate::target::Target;

const PEER: &str = "latchwork-barrier";
const CLIENTS: usize = 10;
/// How long the members join: no longer than they wait.
const JOINING: Duration = Duration::from_secs(5);

pub(super) async fn measure(target: &Target, count: usize, plan: &Plan) -> Result<Vec<Line>> {
    let clients = try_join_all((0..CLIENTS).map(|_| target.open())).await?;
    let begun = Instant::now();
    passed(members(&clients, "at-once", count, 0..count)?).await?;
    let at_once = begun.elapsed();

    let waiting = members(&clients, "last", count, 1..count)?;
    tokio::time::sleep(JOINING.min(plan.held_time)).await;
    let (own, server) = (Cost::own(), target.pid().and_then(Cost::of));
    tokio::time::sleep(plan.held_time).await;
    let (own_after, server_after) = (Cost::own(), target.pid().and_then(Cost::of));
    let begun = Instant::now();
    let last = members(&clients, "last", count, 0..1)?;
    passed(waiting).await?;
    passed(last).await?;
    let after_last = begun.elapsed();
    try_join_all(clients.iter().map(Coordinator::close)).await?;

    let line = |what: &str, took: Duration| {
        let line = Line::new(target.name(), PEER, "BARRIER", &format!("{count} members, {what}"), "s");
        Line { value: Some(took.as_secs_f64()), ..line }
    };
    let seconds = plan.held_time.as_secs_f64();
    let idle = Line {
        client_cpu_pct: Cost::share(own, own_after, seconds),
        server_cpu_pct: Cost::share(server, server_after, seconds),
        ..line("after the last", after_last)
    };
    Ok(vec![line("at once", at_once), idle])
}

type Members = JoinSet<latchwork_core::Result<()>>;

fn members(
    clients: &[Coordinator],
    key: &str,
    count: usize,
    numbers: std::ops::Range<usize>,
) -> Result<Members> {
    let mut members = JoinSet::new();
    for number in numbers {
        let barrier = clients[number % CLIENTS].barrier(format!("barrier-{key}"), u32::try_from(count)?)?;
        members.spawn(async move { barrier.wait().await });
    }
    Ok(members)
}

async fn passed(mut members: Members) -> Result<()> {
    while let Some(member) = members.join_next().await {
        member??;
    }
    Ok(())
}
