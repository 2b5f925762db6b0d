use std::collections::BTreeMap;
use std::time::Instant;

use super::LONG_TTL;
use crate::Result;
use crate::cost::Cost;
use crate::held::hold;
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::target::Target;

/// If the process has not grown, it had enough free memory, and this figure is left out.
pub(super) async fn measure(target: &Target, count: usize, plan: &Plan) -> Result<Vec<Line>> {
    let cost = || target.pid().and_then(Cost::of).ok_or("the server's process cannot be read");
    let client = target.open_with(LONG_TTL).await?;
    let empty = cost()?;
    let holds = hold(&client, count, "held").await?;
    let (full, since) = (cost()?, Instant::now());
    // The idle time itself is measured.
    tokio::time::sleep(plan.held_time).await;
    let (kept, seconds) = (cost()?, since.elapsed().as_secs_f64());
    if let Some(lost) = holds.iter().find_map(|hold| hold.check().err()) {
        return Err(format!("a lock was lost while it was held: {lost}").into());
    }
    client.close().await?;
    let closed = cost()?;
    let thousands = count as f64 / 1000.0;
    let line = Line::new(target.name(), Recipe::Mutex.peer(), "HELD", &format!("{count} held"), "per 1,000");
    let opened = full.cpu_ms_since(&empty) + closed.cpu_ms_since(&kept);
    let mut detail = BTreeMap::from([
        ("cpu_ms".to_owned(), opened / thousands),
        ("keep_pct".to_owned(), kept.share_since(&full, seconds) / thousands),
    ]);
    if full.memory > empty.memory {
        let grown = (full.memory - empty.memory) as f64 / 1024.0;
        detail.insert("memory_kib".to_owned(), grown / thousands);
    }
    Ok(vec![Line { n: Some(count as u64), detail, ..line }])
}
