use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{try_join, try_join_all};
use futures_util::stream::FuturesUnordered;
use latchwork_core::recipes::Mutex;
use latchwork_servers::proxy::Proxy;
use tokio::time::sleep;

use super::LONG_TTL;
use crate::Result;
use crate::line::Line;
use crate::recipe::{Ask, Recipe};
use crate::target::Target;

const PAIRS: u32 = 100;
const QUEUE: usize = 16;
const RELEASES: usize = 8;
/// The link is quiet after this time without bytes.
const QUIET: Duration = Duration::from_millis(20);

pub(super) async fn measure(target: &Target) -> Result<Vec<Line>> {
    Ok(vec![bytes(target).await?, wakes(target).await?])
}

async fn bytes(target: &Target) -> Result<Line> {
    let proxy = Proxy::start(target.addr().ok_or("the store of this process has no network link")?).await?;
    let client = target.open_at(proxy.addr(), LONG_TTL).await?;
    let lock = Recipe::Mutex.lock(&client, "bytes")?;
    lock.acquire(Ask::Alone).await?.release().await?;
    quiet(std::slice::from_ref(&proxy)).await;
    let (asked, answered) = (proxy.asked(), proxy.answered());
    for _ in 0..PAIRS {
        lock.acquire(Ask::Alone).await?.release().await?;
    }
    quiet(std::slice::from_ref(&proxy)).await;
    let each = |now: u64, before: u64| (now - before) as f64 / f64::from(PAIRS);
    let (sent, received) = (each(proxy.asked(), asked), each(proxy.answered(), answered));
    client.close().await?;
    let line = Line::new(target.name(), Recipe::Mutex.peer(), "BYTES", "uncontended", "bytes/acquisition");
    let detail = [("sent".to_owned(), sent), ("received".to_owned(), received)].into();
    Ok(Line { value: Some(sent + received), n: Some(u64::from(PAIRS)), detail, ..line })
}

async fn wakes(target: &Target) -> Result<Line> {
    let addr = target.addr().ok_or("the store of this process has no network link")?;
    let proxies = try_join_all((0..QUEUE).map(|_| Proxy::start(addr))).await?;
    let clients = try_join_all(proxies.iter().map(|proxy| target.open_at(proxy.addr(), LONG_TTL))).await?;
    let locks: Vec<_> =
        clients.iter().map(|client| client.mutex("wakes")).collect::<latchwork_core::Result<_>>()?;
    let mut holder = 0;
    let mut hold = locks[holder].acquire().await?;
    let mut waiting: FuturesUnordered<_> = (1..QUEUE)
        .map(|number| {
            let lock = locks[number].clone();
            async move { lock.acquire().await.map(|hold| (number, hold)) }
        })
        .collect();
    let stand = async {
        tokio::select! {
            stood = stand(&locks[0], QUEUE) => stood,
            early = waiting.next() => Err(format!("a waiter ended early: {early:?}").into()),
        }
    };
    stand.await?;
    quiet(&proxies).await;
    let mut woken = 0;
    for _ in 0..RELEASES {
        let before: Vec<_> = proxies.iter().map(Proxy::answered).collect();
        let next = async { waiting.next().await.ok_or("nobody waits")?.map_err(Into::into) };
        let (_, (number, next)) =
            try_join(async { Ok::<_, crate::Error>(hold.release().await?) }, next).await?;
        // Clients without an admission may wake later than the next holder.
        quiet_beside(&proxies, &mut waiting).await?;
        let heard = |(number, proxy): (usize, &Proxy)| number != holder && proxy.answered() > before[number];
        woken += proxies.iter().enumerate().filter(|each| heard(*each)).count();
        (holder, hold) = (number, next);
    }
    drop(waiting);
    hold.release().await?;
    try_join_all(clients.iter().map(latchwork_core::Coordinator::close)).await?;
    let param = format!("{QUEUE} in the queue");
    let line = Line::new(target.name(), Recipe::Mutex.peer(), "WAKES", &param, "clients woken/release");
    Ok(Line { value: Some(woken as f64 / RELEASES as f64), n: Some(RELEASES as u64), ..line })
}

pub(super) async fn stand(lock: &Mutex, count: usize) -> Result<()> {
    while lock.queue().first(count + 1).await?.len() < count {
        // A server has no event for the length of a queue.
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Waits until no bytes pass for some time, which causes no event.
async fn quiet(proxies: &[Proxy]) {
    let all = || proxies.iter().map(|proxy| proxy.answered() + proxy.asked()).sum::<u64>();
    let mut before = all();
    loop {
        sleep(QUIET).await;
        let now = all();
        if now == before {
            return;
        }
        before = now;
    }
}

async fn quiet_beside<T: std::fmt::Debug, E: std::fmt::Debug>(
    proxies: &[Proxy],
    waiting: &mut FuturesUnordered<impl Future<Output = std::result::Result<T, E>>>,
) -> Result<()> {
    tokio::select! {
        () = quiet(proxies) => Ok(()),
        early = waiting.next(), if !waiting.is_empty() => {
            Err(format!("two hold, or a waiter failed: {early:?}").into())
        }
    }
}
