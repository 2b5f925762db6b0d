use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::Stream;
use futures_util::stream::TryStreamExt;

use crate::error::{Error, Result};
use crate::pages::all;

const PAGE: usize = 500;

/// A page of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The items, without duplicates.
    pub items: Vec<T>,
    /// The start of the next page, in the backend's format; `None` on the last page.
    pub next: Option<String>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self::new(Vec::new(), None)
    }
}

impl<T> Page<T> {
    /// Makes a page of these items. For backends.
    pub fn new(items: Vec<T>, next: Option<String>) -> Self {
        Self { items, next }
    }
}

/// A list on the coordinator, read page by page or completely. No I/O until a page is read. Several pages are
/// no snapshot: an item that appears or disappears during the listing may be missing.
///
/// ```
/// # use latchwork_core::{connect, Config, Result, memory};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let invoices = coordinator.mutex("invoices")?;
/// let hold = invoices.acquire().await?;
/// let holder = invoices.queue().first(1).await?;
/// assert_eq!(holder[0].sequence, hold.token().sequence());
/// assert_eq!(coordinator.clients().all().await?.len(), 1);
/// # drop(hold);
/// # coordinator.close().await }
/// ```
pub struct Listing<T> {
    pages: Arc<dyn Pages<T>>,
}

#[async_trait]
pub(crate) trait Pages<T>: Send + Sync {
    fn name(&self) -> &str;

    async fn page(&self, after: Option<&str>, most: usize) -> Result<Page<T>>;
}

impl<T: Send + 'static> Listing<T> {
    pub(crate) fn of(pages: impl Pages<T> + 'static) -> Self {
        Self { pages: Arc::new(pages) }
    }

    /// Reads a page of at most `most` items: the first page, or the page at `after`, the [`next`](Page::next)
    /// of the page before.
    ///
    /// # Errors
    /// `InvalidArgument` (`after`): the text is not the `next` of a page. The errors of [every
    /// call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn page(&self, after: Option<&str>, most: usize) -> Result<Page<T>> {
        self.pages.page(after, most).await
    }

    /// Reads the first items, at most `most`.
    ///
    /// # Errors and cancel safety
    /// As [`page`](Self::page).
    pub async fn first(&self, most: usize) -> Result<Vec<T>> {
        let Page { mut items, mut next } = self.page(None, most).await?;
        while let Some(after) = next.filter(|_| items.len() < most) {
            let page = self.page(Some(&after), most - items.len()).await?;
            items.extend(page.items);
            next = page.next;
        }
        Ok(items)
    }

    /// Reads all items, page by page.
    ///
    /// # Errors and cancel safety
    /// As [`page`](Self::page).
    pub async fn all(&self) -> Result<Vec<T>> {
        self.clone().into_stream().try_collect().await
    }

    /// Returns all items as a stream, which reads a page when it needs one and ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<T>> + Send {
        all(None::<String>, move |after| {
            let pages = Arc::clone(&self.pages);
            async move {
                let Page { items, next } = pages.page(after.as_deref(), PAGE).await?;
                Ok((items, next.map(Some)))
            }
        })
    }
}

/// The start of a page of a queue is a sequence number.
pub(crate) fn sequence(after: Option<&str>) -> Result<u64> {
    after.map_or(Ok(0), |after| {
        after.parse().map_err(|_| {
            Error::invalid("after", format!("{after:?} is not the `next` of a page of this listing"))
        })
    })
}

pub(crate) fn numbered<T>(items: Vec<T>, most: usize, sequence: impl Fn(&T) -> u64) -> Page<T> {
    let next = items.last().filter(|_| items.len() >= most).map(|last| sequence(last).to_string());
    Page::new(items, next)
}

impl<T> Clone for Listing<T> {
    fn clone(&self) -> Self {
        Self { pages: Arc::clone(&self.pages) }
    }
}

impl<T> fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listing").field(&self.pages.name()).finish()
    }
}
