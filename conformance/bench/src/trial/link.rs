use std::time::{Duration, Instant};

use latchwork_servers::proxy::{Direction, Proxy};

use super::LONG_TTL;
use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::{Ask, Recipe};
use crate::stats::Timings;
use crate::target::Target;

pub(super) const LEAST: u32 = 5;

/// `delay`: a round trip. The proxy delays only this client.
pub(super) async fn measure(target: &Target, delay: Duration, plan: &Plan) -> Result<Vec<Line>> {
    let proxy = Proxy::start(target.addr().ok_or("the store of this process has no network link")?).await?;
    let client = target.open_at(proxy.addr(), LONG_TTL).await?;
    let lock = Recipe::Mutex.lock(&client, "link")?;
    // The first pair opens connections for later ones.
    lock.acquire(Ask::Alone).await?.release().await?;
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.delay(direction, delay / 2);
    }
    let (mut timings, started) = (Timings::new(), Instant::now());
    while started.elapsed() < plan.time || timings.count() < u64::from(LEAST) {
        let began = Instant::now();
        lock.acquire(Ask::Alone).await?.release().await?;
        timings.record(began.elapsed());
    }
    proxy.resume();
    client.close().await?;
    let param = format!("{} ms", delay.as_millis());
    Ok(vec![Line::new(target.name(), Recipe::Mutex.peer(), "LINK", &param, "us").timed(&timings)])
}
