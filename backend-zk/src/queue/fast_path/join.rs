use latchwork_core::Claim;
use latchwork_core::backend::{Join, Patience};

use super::birth::{Birth, right_before};
use super::history::Expected;
use crate::driver::Stat;
use crate::error::{Answer, Fault};
use crate::layout::{QueuePaths, numbered, plain, sequence};
use crate::queue::created::{CreatedNode, KnownPredecessor, Shown, or_undone};
use crate::queue::session::Session;

pub(crate) enum WithoutListing {
    Created(Box<CreatedNode>),
    NoDirectory,
    NotTried,
}

/// If the expectation was wrong, one more trip lists the queue.
pub(crate) async fn create_without_listing(
    session: &Session,
    queue: &QueuePaths,
    join: &Join,
    prefix: &str,
) -> Answer<WithoutListing> {
    // A reader may be admitted together with its predecessor.
    let history = session.fast_path.history().filter(|_| join.claim == Claim::Exclusive);
    let Some(history) = history else { return Ok(WithoutListing::NotTried) };
    let (waits, now) = (join.patience == Patience::Wait, session.writer().clock().now());
    let Some(expected) = history.expected(queue.kind, &queue.directory, waits, now) else {
        return Ok(WithoutListing::NotTried);
    };
    let driver = &session.driver;
    let connection = driver.connection();
    let data = plain(queue.data, &join.label, &join.data);
    let (path, stat) = match driver.create_sequential(&queue.node(prefix), &data).await {
        Err(Fault::NoNode) => {
            history.forget(&queue.directory);
            return Ok(WithoutListing::NoDirectory);
        }
        made => made?,
    };
    let birth = Birth::of(queue.kind, &path, sequence(stat.czxid));
    if birth.is_some_and(|birth| history.made(queue.kind, &queue.directory, birth)) {
        return Ok(created(path, stat, Shown::Admitted(0)));
    }
    let ahead = match (birth, expected) {
        (Some(birth), Expected::Behind(neighbour)) => {
            right_before(birth.counter).map(|counter| queue.node(&numbered(&neighbour, counter)))
        }
        _ => None,
    };
    let list = async || driver.children(&queue.directory).await.map(Shown::Queue);
    let shown = match ahead {
        None => list().await,
        Some(ahead) => {
            let watcher = session.fast_path.watcher(driver, [ahead.as_str()]).await;
            match watcher.watch(&ahead).await {
                Ok((_, _, watch)) => Ok(Shown::Behind(KnownPredecessor {
                    path: ahead,
                    watched: watch.boxed(),
                    connection: watcher.is_own().then_some(connection),
                })),
                Err(Fault::NoNode) => {
                    history.forget_neighbour(&queue.directory);
                    list().await
                }
                Err(fault) => Err(fault),
            }
        }
    };
    let shown = or_undone(session, &path, shown).await?;
    Ok(created(path, stat, shown))
}

fn created(path: String, stat: Stat, shown: Shown) -> WithoutListing {
    WithoutListing::Created(Box::new(CreatedNode { path, stat, shown, limit: None }))
}
