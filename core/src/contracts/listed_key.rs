use super::cell_life::CellLife;
use crate::address::Address;
use crate::listing::Page;

/// The keys of a kind that a listing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeysWith {
    /// Queues that have at least one node (NODE-QUEUES).
    Nodes,
    /// Queues that have a stored limit, with or without nodes (NODE-LIMITS). A kind without permits has none.
    Limit,
    /// Cells (CELL-LIST).
    Cell,
}

/// A key that is in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ListedKey {
    /// The address of the key on the coordinator.
    pub address: Address,
    /// How long the key stays: a queue as long as it has holders or waiters, a value as its last write says.
    /// A time to idle is at least the requested time, and less than a second more.
    pub life: CellLife,
}

impl ListedKey {
    /// Creates an entry for a key that a backend lists.
    pub fn new(address: Address, life: CellLife) -> Self {
        Self { address, life }
    }

    /// Creates an entry for a queue that has nodes.
    pub fn queue(address: Address) -> Self {
        Self::new(address, CellLife::Lease)
    }

    /// Creates an entry for a queue that has a stored limit.
    pub fn limit(address: Address) -> Self {
        Self::new(address, CellLife::Stays)
    }
}

impl Page<ListedKey> {
    /// Creates a page of at most `most` keys, in the order of their encoding.
    pub fn in_order(mut keys: Vec<ListedKey>, most: usize) -> Self {
        keys.sort_unstable_by(|one, other| one.address.coded().cmp(other.address.coded()));
        let is_cut = keys.len() > most;
        keys.truncate(most);
        let next = keys.last().filter(|_| is_cut).map(|last| last.address.coded().to_owned());
        Self::new(keys, next)
    }
}
