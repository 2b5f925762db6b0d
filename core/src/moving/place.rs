use crate::address::{Address, Kind, Namespace};
use crate::error::Result;

#[derive(Clone, Debug)]
pub(crate) struct MovePlace {
    /// The queue of the members. It admits each node, and can be watched.
    pub(crate) members: Address,
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
