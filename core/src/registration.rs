//! The place of a client in the registry of its namespace, by which another client recognises its server:
//! each record has a random id, so a client that finds another one's record on its own server uses the same
//! server. No server needs an identity.

use std::fmt;
use std::sync::Arc;

use crate::address::Address;
use crate::contracts::{Backend, EntryPage};
use crate::error::Result;

#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) clients: Address,
    pub(crate) sequence: u64,
    pub(crate) record: Arc<[u8]>,
}

impl Registration {
    /// Returns whether this is a registration on the server of `backend`.
    pub(crate) async fn is_on(&self, backend: &dyn Backend) -> Result<bool> {
        let page = EntryPage::new(self.sequence.saturating_sub(1), 1);
        let found = backend.list(&self.clients, page).await?;
        Ok(found.first().is_some_and(|entry| entry.sequence == self.sequence && entry.data == self.record))
    }
}

type Find = dyn Fn() -> Option<Registration> + Send + Sync;

/// Finds the current registration of a client; none for a client of both sides of a move.
#[derive(Clone, Default)]
pub(crate) struct Registrations(Option<Arc<Find>>);

impl Registrations {
    pub(crate) fn by(find: impl Fn() -> Option<Registration> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    /// Returns the registration; `None` while the client is not registered.
    pub(crate) fn find(&self) -> Option<Registration> {
        self.0.as_ref()?()
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registrations").field(&self.find()).finish()
    }
}
