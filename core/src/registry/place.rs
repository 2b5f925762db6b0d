//! Where the registry of a namespace is.

use crate::address::{Address, Kind, Name, Namespace};
use crate::error::Result;

/// The queue and the cell of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// As it was written.
    pub(super) namespace: String,
    pub(super) clients: Address,
    pub(super) stamp: Address,
}

impl Place {
    pub(crate) fn of(namespace: &Namespace) -> Result<Self> {
        let at = |kind, name: &str| Address::within(namespace, kind, Name::from(name));
        let (clients, stamp) = (at(Kind::Clients, "all")?, at(Kind::Layout, "stamp")?);
        Ok(Self { namespace: namespace.text.clone(), clients, stamp })
    }
}

/// The queue in which the clients of a namespace register.
///
/// # Errors
/// `InvalidArgument` naming `namespace` when it is empty or over 255 bytes.
pub fn clients_address(namespace: &str) -> Result<Address> {
    Place::of(&Namespace::new(namespace)).map(|place| place.clients)
}

/// The cell with a namespace's layout.
///
/// # Errors
/// `InvalidArgument` naming `namespace` when it is empty or over 255 bytes.
pub fn stamp_address(namespace: &str) -> Result<Address> {
    Place::of(&Namespace::new(namespace)).map(|place| place.stamp)
}
