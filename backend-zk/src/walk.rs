//! A walk over the directory of a kind, page by page.
//!
//! All names come in one reply, because a server has no pages of children. Then the walk reads the nodes of
//! one page. The result shows at least all changes that a majority had committed before the request: a move
//! that compares two sides needs this.

use crate::driver::Driver;
use crate::error::{Answer, Fault};
use crate::layout::{in_directory, kind_directory};
use crate::lease::SessionLease;
use futures_util::future::BoxFuture;
use latchwork_core::{Address, Error, ListedKey, Page, QueuePrefix, Result};

const FEW: usize = 16;
const CHUNK: usize = 256;

/// The most trips of one page, which may end before it is full.
const CHUNKS: usize = 8;

/// `shown` makes items from the answers of `ask`, after the encoded key `after`, in the order of the encoded
/// keys. `what` names them in errors.
///
/// # Errors
/// `InvalidArgument` naming `after`, if no page returned this text as its `next`.
pub(crate) async fn page<N>(
    lease: &SessionLease,
    what: &str,
    of: &QueuePrefix,
    (after, most): (Option<&str>, usize),
    ask: impl for<'a> Fn(&'a Driver, &'a [&'a str]) -> BoxFuture<'a, Answer<Vec<N>>>,
    shown: impl Fn(&Address, N) -> Option<ListedKey>,
) -> Result<Page<ListedKey>> {
    let directory = kind_directory(of.namespace(), of.kind());
    let mut found = names(lease, what, &directory, of, after).await?;
    found.sort_unstable_by(|(one, _), (other, _)| one.coded().cmp(other.coded()));

    let mut page = Vec::new();
    let (mut asked, most) = (0, most.max(1));
    for chunk in found.chunks(most.clamp(FEW, CHUNK)).take(CHUNKS) {
        if page.len() == most {
            break;
        }
        let paths: Vec<_> = chunk.iter().map(|(_, path)| path.as_str()).collect();
        let answers = ask(&lease.driver, &paths).await.map_err(|fault| failed(fault, what))?;
        for ((address, _), answer) in chunk.iter().zip(answers) {
            if page.len() == most {
                break;
            }
            asked += 1;
            page.extend(shown(address, answer));
        }
    }
    let last = found[..asked].last().filter(|_| asked < found.len());
    Ok(Page::new(page, last.map(|(last, _)| last.coded().to_owned())))
}

/// The names after the encoded key `after`, with their paths, unordered.
///
/// # Errors
/// As [`page`].
pub(crate) async fn names(
    lease: &SessionLease,
    what: &str,
    directory: &str,
    of: &QueuePrefix,
    after: Option<&str>,
) -> Result<Vec<(Address, String)>> {
    if let Some(after) = after.filter(|after| of.queue(after).is_none()) {
        return Err(Error::invalid(
            "after",
            format!("{after:?} is not the `next` of a page of these {what}"),
        ));
    }
    let names = lease.children_by_majority(directory).await.map_err(|fault| failed(fault, what))?;
    let is_behind = |name: &String| after.is_none_or(|after| name.as_str() > after);
    let found = names.into_iter().filter(|name| name.starts_with(of.coded()) && is_behind(name));
    Ok(found.filter_map(|name| Some((of.queue(&name)?, in_directory(directory, &name)))).collect())
}

fn failed(fault: Fault, what: &str) -> Error {
    fault.error_without_trace(&format!("list the {what} of a kind"))
}
