//! The addresses of a move, on its old side.

use crate::address::{Address, Kind, Namespace};
use crate::error::Result;

/// The addresses of one move on its old side.
#[derive(Clone, Debug)]
pub(crate) struct MovePlace {
    /// The queue of its members. It admits every node, and can be watched.
    pub(crate) members: Address,
    /// The cell with its stage.
    pub(crate) stage: Address,
}

impl MovePlace {
    /// `namespace`: the old side's.
    pub(crate) fn of(namespace: &str, name: &str) -> Result<Self> {
        let (namespace, key) = (Namespace::new(namespace), format!("move/{name}"));
        let at = |kind| Address::within(&namespace, kind, key.as_str().into());
        Ok(Self { members: at(Kind::Clients)?, stage: at(Kind::Layout)? })
    }
}
