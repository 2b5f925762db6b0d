//! Listing the queues of a kind (NODE-QUEUES). An empty directory remains for a minute, so the numbers of
//! nodes are read.

use crate::walk;
use futures_util::FutureExt;
use latchwork_core::{ListedKey, Page, QueuePrefix, Result};

use super::session::Session;

pub(crate) async fn queues(
    session: &Session,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    walk::page(
        &session.lease,
        "queues",
        of,
        (after, most),
        |driver, paths| driver.child_counts(paths).boxed(),
        |queue, count| (count > 0).then(|| ListedKey::queue(queue.clone())),
    )
    .await
}
