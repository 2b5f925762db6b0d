use std::process::Stdio;
use std::time::Instant;

use latchwork_core::recipes::Mutex;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::wire::stand;
use super::{SHORT_TTL, Terms};
use crate::Result;
use crate::line::Line;
use crate::recipe::Recipe;
use crate::target::Target;

const KEY: &str = "crash";

pub(super) async fn measure(target: &Target, terms: &Terms) -> Result<Vec<Line>> {
    let waiter = target.open_with(SHORT_TTL).await?;
    let lock = waiter.mutex(KEY)?;
    let waited = match target.server() {
        Some((url, _)) => {
            let mut holder = holder(target, url, terms).await?;
            let waited = until_next(&lock, async {
                holder.start_kill()?;
                Ok(())
            });
            let waited = waited.await?;
            holder.wait().await?;
            waited
        }
        None => {
            let holder = target.open_with(SHORT_TTL).await?;
            let _held = holder.mutex(KEY)?.acquire().await?;
            until_next(&lock, async {
                latchwork_core::crash(&holder).await;
                Ok(())
            })
            .await?
        }
    };
    let ttl = waiter.lease().ttl().as_secs_f64();
    waiter.close().await?;
    let line = Line::new(target.name(), Recipe::Mutex.peer(), "CRASH", "", "s");
    Ok(vec![Line { value: Some(waited), n: Some(1), detail: [("ttl".to_owned(), ttl)].into(), ..line }])
}

/// Seconds.
async fn until_next(lock: &Mutex, death: impl Future<Output = Result<()>>) -> Result<f64> {
    let waits = lock.acquire();
    tokio::pin!(waits);
    tokio::select! {
        stood = stand(lock, 2) => stood?,
        early = &mut waits => return Err(format!("the lock was free before its holder died: {early:?}").into()),
    }
    let began = Instant::now();
    death.await?;
    let hold = waits.await?;
    let waited = began.elapsed().as_secs_f64();
    hold.release().await?;
    Ok(waited)
}

async fn holder(target: &Target, url: &str, terms: &Terms) -> Result<Child> {
    let (program, arguments) =
        terms.holder.split_first().ok_or("the terms name no program that holds the lock")?;
    let mut command = Command::new(program);
    command.args(arguments).args([&target.config().namespace, &SHORT_TTL.as_millis().to_string(), KEY]);
    // A command line would show a password in the URL.
    command.env("LATCHWORK_URL", url).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.kill_on_drop(true).spawn()?;
    let out = child.stdout.take().ok_or("its output is a pipe")?;
    match BufReader::new(out).lines().next_line().await? {
        Some(line) if line == "held" => Ok(child),
        said => Err(format!("the process that must hold the lock printed {said:?} instead of `held`").into()),
    }
}
