//! Makes one side a copy of the other, while no client uses either.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use futures_util::{Stream, StreamExt, TryStreamExt};

use super::{KINDS, moved};
use crate::address::{Address, Kind, Namespace, QueuePrefix};
use crate::contracts::{Backend, CellLife, CellWrite, CellWritten, Expected, KeysWith, ListedKey, Node};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::all;

/// The number of cells in one listing.
pub(super) const PAGE: usize = 500;
pub(super) const AT_ONCE: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// All values are the same; this is their number.
    Same(usize),
    Differs(Kind, Arc<str>),
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) namespace: Namespace,
}

/// The side with the values, and the side that gets the copy.
#[derive(Clone, Debug)]
pub(crate) struct Copying {
    pub(crate) source: Place,
    pub(crate) target: Place,
}

type Listed = BTreeMap<Arc<str>, ListedKey>;

impl Place {
    pub(crate) fn takes_values(&self) -> Result<()> {
        match self.backend.capabilities().held_writes {
            true => Ok(()),
            false => Err(Error::unsupported(
                "held_writes",
                "values cannot move to a server that refuses writes under a hold of another key",
            )),
        }
    }

    /// Its values by kind: the first ones, up to a page of each.
    pub(crate) async fn some(&self) -> Result<Vec<(Kind, Vec<ListedKey>)>> {
        // All kinds at once, since a listing may walk over all keys of the server.
        let listings = KINDS.map(|kind| async move {
            let cells: Vec<_> = self.keys(KeysWith::Cell, kind)?.take(PAGE).try_collect().await?;
            Ok::<_, Error>((kind, cells))
        });
        let listed = try_join_all(listings).await?;
        Ok(listed.into_iter().filter(|(_, cells)| !cells.is_empty()).collect())
    }

    pub(crate) async fn clear(&self, held: &dyn Node) -> Result<()> {
        self.takes_values()?;
        for kind in KINDS {
            let listed: Vec<_> = self.list(kind).await?.into_values().collect();
            for some in listed.chunks(AT_ONCE) {
                let deletions = some.iter().map(|cell| write(held, &cell.address, None));
                try_join_all(deletions).await?;
            }
        }
        Ok(())
    }

    async fn list(&self, kind: Kind) -> Result<Listed> {
        let keys = self.keys(KeysWith::Cell, kind)?;
        keys.map_ok(|key| (Arc::clone(key.address.shared_name()), key)).try_collect().await
    }

    pub(super) fn keys(
        &self,
        with: KeysWith,
        kind: Kind,
    ) -> Result<impl Stream<Item = Result<ListedKey>> + Send> {
        let of = Arc::new(QueuePrefix::new(&self.namespace.text, kind, "")?);
        Ok(all(None::<String>, move |after| {
            let of = Arc::clone(&of);
            async move {
                let page = self.backend.list_keys(with, &of, after.as_deref(), PAGE).await?;
                Ok((page.items, page.next.map(Some)))
            }
        }))
    }
}

impl Copying {
    /// Under this node (MIGRATE-VALUES-HELD-COPY), writes each cell of the source on the target, and deletes
    /// all other cells there (MIGRATE-VALUES-MIRROR). Reading a cell counts as a use of it.
    ///
    /// # Errors
    /// `Lost` if the node is gone; `Conflict` for a cell that ends with its writer's lease; `Unsupported` if
    /// the target refuses writes under a hold of another key; as reads and writes of cells, naming the key.
    ///
    /// # Cancel safety
    /// Writes under way may be made while the node exists.
    pub(crate) async fn write_all(&self, held: &dyn Node) -> Result<()> {
        for kind in KINDS {
            let (source, target) = self.list(kind).await?;
            if source.is_empty() && target.is_empty() {
                continue;
            }
            self.target.takes_values()?;
            // Otherwise its values could be neither deleted at the end nor copied back.
            self.source.takes_values()?;
            let source: Vec<_> = source.into_iter().collect();
            for some in source.chunks(AT_ONCE) {
                try_join_all(some.iter().map(|(_, from)| self.copy(held, from))).await?;
            }
            let known = |key: &Arc<str>| source.binary_search_by(|(known, _)| known.cmp(key)).is_ok();
            let extra: Vec<_> = target.into_iter().filter(|(key, _)| !known(key)).collect();
            for some in extra.chunks(AT_ONCE) {
                let deletions = some.iter().map(|(_, cell)| write(held, &cell.address, None));
                try_join_all(deletions).await?;
            }
        }
        Ok(())
    }

    async fn list(&self, kind: Kind) -> Result<(Listed, Listed)> {
        try_join(self.source.list(kind), self.target.list(kind)).await
    }

    async fn copy(&self, held: &dyn Node, from: &ListedKey) -> Result<()> {
        let to = moved(&from.address, &self.target.namespace)?;
        if from.life == CellLife::Lease {
            let why =
                "the value ends with its writer's lease, so it cannot move: delete it, or wait for its end";
            return Err(Error::new(ErrorKind::Conflict, why).on(from.address.name()));
        }
        let read = self.source.backend.read_cell(&from.address).await;
        let found = read.map_err(|error| error.on(from.address.name()))?;
        // A missing cell has expired unused.
        write(held, &to, found.map(|cell| (cell.value, from.life))).await
    }

    /// Whether all values and limits are the same on both sides (MIGRATE-VALUES-VERIFY).
    pub(crate) async fn compare(&self) -> Result<Compared> {
        if let Some(key) = self.unlike_limit().await? {
            return Ok(Compared::Differs(Kind::Semaphore, key));
        }
        let mut same = 0;
        for kind in KINDS {
            let (source, mut target) = self.list(kind).await?;
            let mut pairs = Vec::new();
            for (key, from) in source {
                let Some(to) = target.remove(&key) else { return Ok(Compared::Differs(kind, key)) };
                pairs.push((key, from, to));
            }
            if let Some((key, _)) = target.pop_first() {
                return Ok(Compared::Differs(kind, key));
            }
            for some in pairs.chunks(AT_ONCE) {
                let found = try_join_all(some.iter().map(|(_, from, to)| self.is_same(from, to))).await?;
                if let Some(at) = found.iter().position(|same| !same) {
                    return Ok(Compared::Differs(kind, Arc::clone(&some[at].0)));
                }
                same += some.len();
            }
        }
        Ok(Compared::Same(same))
    }

    async fn is_same(&self, from: &ListedKey, to: &ListedKey) -> Result<bool> {
        let (source, target) = (&self.source.backend, &self.target.backend);
        let (source, target) =
            try_join(source.read_cell(&from.address), target.read_cell(&to.address)).await?;
        Ok(lives_are_same(from.life, to.life)
            && source.map(|cell| cell.value) == target.map(|cell| cell.value))
    }
}

/// Writes or deletes a cell under a node, without a condition.
async fn write(held: &dyn Node, cell: &Address, what: Option<(Arc<[u8]>, CellLife)>) -> Result<()> {
    let (value, life) = what.map_or((None, CellLife::Stays), |(value, life)| (Some(value), life));
    let write = CellWrite { expected: Expected::Any, value, life };
    let written = held.write_cell(cell, &write).await.map_err(|error| error.on(cell.name()))?;
    match written {
        CellWritten::Deleted { .. } | CellWritten::Written(_) => Ok(()),
        CellWritten::Refused(_) => {
            let why = "the server refused a write without a condition";
            Err(Error::new(ErrorKind::Misconfigured, why).on(cell.name()))
        }
    }
}

/// Whether two lifetimes are the same. Servers round times to idle differently.
fn lives_are_same(one: CellLife, other: CellLife) -> bool {
    match (one, other) {
        (CellLife::Idle(one), CellLife::Idle(other)) => {
            one.get().abs_diff(other.get()) < Duration::from_secs(1)
        }
        (one, other) => one == other,
    }
}
