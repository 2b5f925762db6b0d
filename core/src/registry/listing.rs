//! Listings of a namespace: its clients, its queues, and its values.

use std::fmt;
use std::sync::Arc;

use futures_util::Stream;

use super::place::Place;
use super::record::ClientRecord;
use crate::address::{Address, QueuePrefix};
use crate::client::Client;
use crate::contracts::{CellPage, ListedCell, Page, QueuePage};
use crate::error::Result;
use crate::pages::all;

/// So many are read at a time by a stream.
const PAGE: usize = 500;

/// The connected clients of a namespace, in the order in which they registered. Made by
/// [`Coordinator::clients`](crate::Coordinator::clients), without I/O.
///
/// A client is listed from its connect to its close. One that died is listed until the server has
/// ended its lease, and one that was cut off registers anew when it is back. What another namespace,
/// another database or another chroot has is not seen.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// for client in coordinator.clients().page(0, 100).await? {
///     println!("{} {} on {}, latchwork {}", client.number, client.label, client.host, client.version);
/// #   assert_eq!(client.label, coordinator.label());
/// }
/// # assert_eq!(coordinator.clients().page(0, 100).await?.len(), 1);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Clients {
    client: Arc<Client>,
    place: Place,
}

impl Clients {
    pub(crate) fn new(client: &Arc<Client>, place: &Place) -> Self {
        Self { client: Arc::clone(client), place: place.clone() }
    }

    /// At most `most` clients with numbers above `after` (0: from the first). One round trip. The
    /// next page is behind the last number.
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn page(&self, after: u64, most: usize) -> Result<Vec<ClientRecord>> {
        let listing = self.client.backend.list(&self.place.clients, Page::new(after, most));
        let listed = self.client.serve(listing).await;
        let entries = listed.map_err(|error| error.in_operation("clients").on(&*self.place.namespace))?;
        Ok(entries.into_iter().map(ClientRecord::from).collect())
    }

    /// All of them, page by page, each once. Who comes meanwhile may be among them. The stream ends
    /// after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ClientRecord>> + Send {
        all(0, move |after| {
            let clients = self.clone();
            async move {
                let page = clients.page(after, PAGE).await?;
                let next = page.last().map(|last| last.number).filter(|_| page.len() == PAGE);
                Ok((page, next))
            }
        })
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("namespace", &self.place.namespace).finish_non_exhaustive()
    }
}

/// The queues of one kind in a namespace that have holders or waiters, by the beginning of their
/// keys. Made by [`Coordinator::queues`](crate::Coordinator::queues), without I/O.
///
/// Queues at [exact addresses](Address::exact) are not among them. Stored values are listed by [`Values`].
///
/// ```
/// # use latchwork_core::{connect, Config, Kind, memory};
/// # use futures_util::TryStreamExt;
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let held = coordinator.mutex("orders/7")?.acquire().await?;
/// let queues = coordinator.queues(Kind::Mutex, "orders/")?;
/// let queues: Vec<_> = queues.into_stream().try_collect().await?;
/// assert_eq!(queues[0].name(), "orders/7");
/// # drop(held);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Queues {
    client: Arc<Client>,
    of: QueuePrefix,
}

impl Queues {
    pub(crate) fn new(client: &Arc<Client>, of: QueuePrefix) -> Self {
        Self { client: Arc::clone(client), of }
    }

    /// About `most` queues, in the order of the backend. The next page begins where
    /// [`next`](QueuePage::next) of this one says (`None`: the first page). A queue may stand in two
    /// pages, and one that comes or goes meanwhile may be missed.
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `InvalidArgument` naming `after` for text that no page gave;
    /// `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn page(&self, after: Option<&str>, most: usize) -> Result<QueuePage> {
        let listed = self.client.serve(self.client.backend.queues(&self.of, after, most)).await;
        listed.map_err(|error| error.in_operation("queues"))
    }

    /// All of them, page by page. A queue may come twice. The stream ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Address>> + Send {
        all(None::<String>, move |after| {
            let queues = self.clone();
            async move {
                let QueuePage { queues, next } = queues.page(after.as_deref(), PAGE).await?;
                Ok((queues, next.map(Some)))
            }
        })
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").field("of", &self.of).finish_non_exhaustive()
    }
}

/// The stored values of one kind in a namespace (counters, generators of ids, latches, shared values),
/// by the beginning of their keys, each with how long it stays. Made by
/// [`Coordinator::values`](crate::Coordinator::values), without I/O.
///
/// A listing is no use of a value that goes when nobody uses it. Values at
/// [exact addresses](Address::exact) are not listed. On Redis a listing walks over all keys of the
/// server, as that of queues does.
///
/// ```
/// # use latchwork_core::{connect, Config, Kind, memory};
/// # use futures_util::TryStreamExt;
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// coordinator.counter("visits/home")?.add(1).await?;
/// let values = coordinator.values(Kind::Counter, "visits/")?;
/// let values: Vec<_> = values.into_stream().try_collect().await?;
/// assert_eq!(values[0].cell.name(), "visits/home");
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Values {
    client: Arc<Client>,
    of: QueuePrefix,
}

impl Values {
    pub(crate) fn new(client: &Arc<Client>, of: QueuePrefix) -> Result<Self> {
        of.check_cells()?;
        Ok(Self { client: Arc::clone(client), of })
    }

    /// About `most` values, in the order of the backend. The next page begins where
    /// [`next`](CellPage::next) of this one says (`None`: the first page). A value may stand in two
    /// pages, and one that comes or goes meanwhile may be missed.
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `InvalidArgument` naming `after` for text that no page gave;
    /// `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn page(&self, after: Option<&str>, most: usize) -> Result<CellPage> {
        let listed = self.client.serve(self.client.backend.cells(&self.of, after, most)).await;
        listed.map_err(|error| error.in_operation("values"))
    }

    /// All of them, page by page. A value may come twice. The stream ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ListedCell>> + Send {
        all(None::<String>, move |after| {
            let values = self.clone();
            async move {
                let CellPage { cells, next } = values.page(after.as_deref(), PAGE).await?;
                Ok((cells, next.map(Some)))
            }
        })
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("of", &self.of).finish_non_exhaustive()
    }
}
