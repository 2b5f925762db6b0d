use crate::address::{Address, Key, Kind, Namespace};
use crate::error::Result;

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) namespace: String,
    pub(crate) clients: Address,
    pub(crate) stamp: Address,
}

impl Place {
    pub(crate) fn of(namespace: &Namespace) -> Result<Self> {
        let at = |kind, name: &str| Address::within(namespace, kind, Key::from(name));
        let (clients, stamp) = (at(Kind::Clients, "all")?, at(Kind::Layout, "stamp")?);
        Ok(Self { namespace: namespace.text.clone(), clients, stamp })
    }
}

const WRITERS: &str = "latchwork/move-values/";

/// The mutex of the operator that writes the values of a namespace in a move.
pub(crate) fn writers(namespace: &Namespace, name: &str) -> Result<Address> {
    Address::within(namespace, Kind::Mutex, format!("{WRITERS}{name}").into())
}

/// Whether this is a queue of [`writers`]: the only kind of lock that an operator takes.
pub(crate) fn is_writers(queue: &Address) -> bool {
    queue.kind() == Kind::Mutex && !queue.is_exact() && queue.name().starts_with(WRITERS)
}

/// Returns the queue in which the clients of a namespace register.
///
/// # Errors
/// `InvalidArgument` naming `namespace` if it is empty or over 255 bytes.
pub fn clients_address(namespace: &str) -> Result<Address> {
    Place::of(&Namespace::new(namespace)).map(|place| place.clients)
}

/// Returns the cell with a namespace's layout.
///
/// # Errors
/// `InvalidArgument` naming `namespace` if it is empty or over 255 bytes.
pub fn stamp_address(namespace: &str) -> Result<Address> {
    Place::of(&Namespace::new(namespace)).map(|place| place.stamp)
}
