use std::time::{Duration, Instant};

use latchwork_core::recipes::Mutex;
use tokio::time::sleep;

use crate::Result;
use crate::line::Line;
use crate::recipe::Recipe;
use crate::target::Target;

/// Longer than a restart.
const TTL: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(5);

/// Times the way back of a connected client, and reports the fate of a hold.
pub(super) async fn measure(target: &Target) -> Result<Vec<Line>> {
    let server = target.program().ok_or("only a server that was started here can be stopped")?;
    let (holder, other) = (target.open_with(TTL).await?, target.open_with(TTL).await?);
    let _held = holder.mutex("restart")?.acquire().await?;
    let lock = other.mutex("restart-other")?;
    lock.acquire().await?.release().await?;

    let began = Instant::now();
    server.kill().await?;
    server.launch().await?;
    let serves = began.elapsed().as_secs_f64();
    once_back(&lock).await?;
    let back = began.elapsed().as_secs_f64();

    let looker = target.open_with(TTL).await?;
    let kept = match looker.mutex("restart")?.try_acquire().await? {
        Some(hold) => {
            hold.release().await?;
            0.0
        }
        None => 1.0,
    };
    for client in [looker, other, holder] {
        client.close().await?;
    }
    let line = Line::new(target.name(), Recipe::Mutex.peer(), "RESTART", "", "s");
    let detail = [("serves".to_owned(), serves), ("kept".to_owned(), kept)].into();
    Ok(vec![Line { value: Some(back), n: Some(1), detail, ..line }])
}

async fn once_back(lock: &Mutex) -> Result<()> {
    loop {
        match lock.acquire().await {
            Ok(hold) => return Ok(hold.release().await?),
            Err(error) if error.may_pass() => sleep(AGAIN).await,
            Err(error) => return Err(error.into()),
        }
    }
}
