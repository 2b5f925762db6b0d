use latchwork_core::{Error, ErrorKind};

use super::release_notice::{LISTED, ReleaseNotice, Signal, Successor};
use crate::driver::{Compare, Driver, Found, Op, Order, Range, StoredKey, Txn};
use crate::error::{Answer, Failure};
use crate::layout::Queue;
use crate::queue::list::nodes;
use crate::watch::OwnNode;

const ROUNDS: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(super) queue: Queue,
    pub(super) signal: Signal,
    /// From the notice that this node received.
    pub(super) successors: Vec<Successor>,
}

impl Handover {
    /// A lost hold may not have been the first, so it admits no node.
    pub(crate) fn of_lost(self) -> Self {
        Self { signal: Signal::Look, ..self }
    }

    /// `None`: nothing was done, because this user may not write the inbox.
    pub(crate) async fn leave(self, driver: &Driver, own: &OwnNode, first: bool) -> Answer<Option<bool>> {
        let Some(inbox) = self.queue.inbox(&own.key) else { return driver.delete(&own.key).await.map(Some) };
        let delete = vec![Op::Delete(own.key.to_vec()), Op::Delete(inbox.key.clone().into_bytes())];
        let refused = match self.notify(driver, own, &delete).await {
            Ok(was_there) => return Ok(Some(was_there)),
            Err(Failure::Other(error)) if error.kind() == ErrorKind::Forbidden => {
                return Ok(None);
            }
            // A full server accepts only deletions. The successor's lease has expired, or another program
            // created that node.
            Err(refused @ (Failure::Full(_) | Failure::LeaseGone)) => refused,
            Err(failure) => return Err(failure),
        };
        let was_there = driver.txn(Txn::when(own.exists(), delete)).await?.succeeded;
        match refused {
            // The refused request or another client removed the node. Core repeats the leave, and learns that
            // this client may have removed it.
            Failure::Full(error) if !was_there && first => Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "the server refused the leave because its database is full, but may have removed the node",
            )
            .because(error)
            .into()),
            _ => Ok(Some(was_there)),
        }
    }

    async fn notify(self, driver: &Driver, own: &OwnNode, delete: &[Op]) -> Answer<bool> {
        let or_else = || vec![Op::Get(own.key.to_vec()), Op::Range(self.range(own))];
        let is_over = |read: Option<&Found>| !read.is_some_and(|read| own.is_in(read));
        let (mut successors, mut listed) = (self.successors.clone(), None);
        for _ in 0..ROUNDS {
            let (mut compares, mut then) = (vec![own.exists()], delete.to_vec());
            match (successors.split_first(), listed) {
                (Some((next, rest)), _) => {
                    let key = format!("{}{}", self.queue.prefix, next.name).into_bytes();
                    if let Some(inbox) = self.queue.inbox(&key) {
                        let (signal, successors) = (self.signal, rest.to_vec());
                        let notice = ReleaseNotice { to: next.created, signal, successors };
                        then.push(Op::Put { key: inbox.key, value: notice.encode(), lease: inbox.lease });
                    }
                    compares.push(Compare::Created(key, next.created));
                }
                (None, Some(revision)) => {
                    compares.push(Compare::Unwritten(self.queue.prefix.clone(), revision));
                }
                (None, None) => {
                    let (found, revision) = driver.range(self.range(own)).await?;
                    (successors, listed) = (self.listed(Some(&found)), Some(revision));
                    continue;
                }
            }
            let result = driver.txn(Txn { compares, then, or_else: or_else() }).await?;
            if result.succeeded || is_over(result.reads.first()) {
                return Ok(result.succeeded);
            }
            (successors, listed) = (self.listed(result.reads.last()), Some(result.revision));
        }
        // The successor's watch on this node's key serves it.
        Ok(driver.txn(Txn::when(own.exists(), delete.to_vec())).await?.succeeded)
    }

    fn range(&self, own: &OwnNode) -> Range {
        let order = Order::OldestAfter(own.state.sequence());
        nodes(&self.queue, order, LISTED as i64)
    }

    fn listed(&self, found: Option<&Found>) -> Vec<Successor> {
        let successor = |stored: &StoredKey| {
            self.queue.claim(stored)?;
            let key = std::str::from_utf8(&stored.key).ok()?;
            let name = key.strip_prefix(self.queue.prefix.as_str())?;
            Some(Successor { name: name.to_owned(), created: stored.created })
        };
        let keys = found.map_or(&[][..], |found| &found.keys);
        keys.iter().filter_map(successor).collect()
    }
}
