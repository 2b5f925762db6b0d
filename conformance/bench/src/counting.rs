use async_trait::async_trait;
use futures_util::future::try_join_all;
use latchwork_core::Coordinator;
use latchwork_core::recipes::Counter;

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::cells::{self, Write};
use crate::raw::{PLAIN, Pair, SAME, Subject};
use crate::target::Target;
use crate::throughput::{Done, Window, per_second};
use crate::turns::{self, ServerTerms};

const PEER: &str = "latchwork-counter";
const CLIENTS: usize = 16;

#[async_trait]
impl Pair for Counter {
    async fn once(&mut self) -> Result<()> {
        Ok(self.add(1).await.map(drop)?)
    }
}

pub(super) async fn measure(target: &Target, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let mut subjects = vec![Subject { peer: PEER, pair: Box::new(client.counter("alone")?) }];
    if plan.raw {
        let same = cells::writing(target, "alone", Write::OnVersion).await?;
        subjects.extend(same.map(|pair| Subject { peer: SAME, pair }));
        let plain = cells::incrementing(target).await?;
        subjects.extend(plain.map(|pair| Subject { peer: PLAIN, pair }));
    }
    let terms = ServerTerms::of(target, ["COUNTER", "add", "server requests/add"]);
    let mut lines = turns::measure(subjects, plan, &terms).await?;
    client.close().await?;
    lines.extend(together(target, plan).await?);
    Ok(lines)
}

async fn together(target: &Target, plan: &Plan) -> Result<Vec<Line>> {
    let clients = try_join_all((0..CLIENTS).map(|_| target.open())).await?;
    let counters: Vec<_> =
        clients.iter().map(|client| client.counter("shared")).collect::<latchwork_core::Result<_>>()?;
    let sum = counters[0].get().await?;
    let ours = counters.iter().map(|counter| Box::new(counter.clone()) as Box<dyn Pair>).collect();
    let (line, all) = shared(target, PEER, ours, plan).await?;
    let counted = counters[0].get().await? - sum;
    try_join_all(clients.iter().map(Coordinator::close)).await?;
    let error =
        (i64::try_from(all)? != counted).then(|| format!("the counter rose by {counted} after {all} adds"));
    let mut lines = vec![Line { error, ..line }];
    if plan.raw && target.name() == "redis" {
        for peer in [SAME, PLAIN] {
            let mut raw = Vec::new();
            for _ in 0..CLIENTS {
                raw.extend(match peer {
                    SAME => cells::writing(target, "shared-raw", Write::OnVersion).await?,
                    _ => cells::incrementing(target).await?,
                });
            }
            lines.push(shared(target, peer, raw, plan).await?.0);
        }
    }
    Ok(lines)
}

/// Also returns the number of adds, including the warm-up.
async fn shared(target: &Target, peer: &str, adders: Vec<Box<dyn Pair>>, plan: &Plan) -> Result<(Line, u64)> {
    let window = Window::after(plan);
    let tasks = adders.into_iter().map(|mut adder| {
        let window = window.clone();
        tokio::spawn(async move {
            let (mut all, mut recorded) = (0_u64, Done::default());
            loop {
                adder.once().await?;
                all += 1;
                if !window.goes_on(&mut recorded) {
                    return Result::Ok((all, recorded));
                }
            }
        })
    });
    let added: Vec<(u64, Done)> = try_join_all(tasks).await?.into_iter().collect::<Result<_>>()?;
    let all = added.iter().map(|(all, _)| all).sum();
    let (recorded, took) = window.sum(added.into_iter().map(|(_, recorded)| recorded));
    let line = Line::new(target.name(), peer, "COUNTER_adds", &format!("W={CLIENTS}"), "adds/s");
    Ok((Line { value: Some(per_second(recorded, took)), n: Some(recorded), ..line }, all))
}
