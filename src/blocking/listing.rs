//! Listings of a namespace: its clients, its queues, and its values.

use std::fmt;

use super::home::Home;
use super::iter::Answers;
use crate::contracts::{CellPage, ListedCell, QueuePage};
use crate::{Address, ClientRecord, Result, registry};

/// The connected clients of a namespace. As [`registry::Clients`].
#[derive(Clone)]
pub struct Clients {
    clients: registry::Clients,
    home: Home,
}

impl Clients {
    pub(super) fn new(clients: registry::Clients, home: &Home) -> Self {
        Self { clients, home: home.clone() }
    }

    /// At most `most` clients with numbers above `after`. As [`registry::Clients::page`], with its errors,
    /// and `InAsyncCode`.
    pub fn page(&self, after: u64, most: usize) -> Result<Vec<ClientRecord>> {
        self.home.run(self.clients.page(after, most))
    }
}

/// All of them, page by page, until an error.
impl IntoIterator for Clients {
    type Item = Result<ClientRecord>;
    type IntoIter = Answers<ClientRecord>;

    fn into_iter(self) -> Self::IntoIter {
        Answers::of(self.clients.into_stream(), &self.home)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clients.fmt(f)
    }
}

/// The queues of one kind in a namespace. As [`registry::Queues`].
#[derive(Clone)]
pub struct Queues {
    queues: registry::Queues,
    home: Home,
}

impl Queues {
    pub(super) fn new(queues: registry::Queues, home: &Home) -> Self {
        Self { queues, home: home.clone() }
    }

    /// About `most` queues. As [`registry::Queues::page`], with its errors, and `InAsyncCode`.
    pub fn page(&self, after: Option<&str>, most: usize) -> Result<QueuePage> {
        self.home.run(self.queues.page(after, most))
    }
}

/// All of them, page by page, until an error.
impl IntoIterator for Queues {
    type Item = Result<Address>;
    type IntoIter = Answers<Address>;

    fn into_iter(self) -> Self::IntoIter {
        Answers::of(self.queues.into_stream(), &self.home)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queues.fmt(f)
    }
}

/// The stored values of one kind in a namespace. As [`registry::Values`].
#[derive(Clone)]
pub struct Values {
    values: registry::Values,
    home: Home,
}

impl Values {
    pub(super) fn new(values: registry::Values, home: &Home) -> Self {
        Self { values, home: home.clone() }
    }

    /// About `most` values. As [`registry::Values::page`], with its errors, and `InAsyncCode`.
    pub fn page(&self, after: Option<&str>, most: usize) -> Result<CellPage> {
        self.home.run(self.values.page(after, most))
    }
}

/// All of them, page by page, until an error.
impl IntoIterator for Values {
    type Item = Result<ListedCell>;
    type IntoIter = Answers<ListedCell>;

    fn into_iter(self) -> Self::IntoIter {
        Answers::of(self.values.into_stream(), &self.home)
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}
