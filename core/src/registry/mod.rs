//! The registry: the connected clients of a namespace, and its layout. Every client registers before it is
//! handed out.
//!
//! *Protocol.* A client registers, and then reads the stamp of its namespace.
//!
//! 1. It joins the queue of the namespace's clients, with its record ([`ClientRecord`]) as the node's data.
//!    The queue admits every client. The node lives as long as the client's lease.
//! 2. It reads the cell with the namespace's layout. If the cell does not exist, the client writes its
//!    layout, on the condition that the cell still does not exist. A client that does not work with the
//!    stored layout is refused.
//!
//! Both steps come before `connect` returns, and before the first operation of a client that connects lazily:
//! two round trips, and one more for the first client of a namespace. When the node is lost (with its lease,
//! or by an operator, an eviction or a flush) the client repeats both steps, with a back-off, until it is
//! closed. An idle client does so too.
//!
//! An operator that raises the layout announces it in the stamp, then lists the clients, and then writes the
//! result that the list allows. Each write is over the version that was read (LAYOUT-UNDER-VERSION; [`Stamp`]
//! decides).
//!
//! *Why it is safe.* The invariant is that every client that has entered works with the stamped layout. Take
//! a client that does not work with the next layout. It registers before it reads (CLIENT-REGISTER-FIRST),
//! and the announcement is written before the list is read (LAYOUT-ANNOUNCE-FIRST). If it registers before
//! the announcement, the list shows it, and the announcement is taken back. If it registers later, it reads
//! the announcement, and is refused. A second operator, or an operator that died half-way, changes nothing: a
//! write over an old version is refused (CELL-CAS), and an announcement stays until an operator settles it.
//! The model `layout` of core's tests removes each of the steps.
//!
//! With the stamp the client reads the *marker* of a namespace that moves to another coordinator, or that an
//! operator has [retired](crate::Operator::retire). A plain client is refused then, and its error says where
//! to connect. The marker is written and the clients are listed in the same order, for the same reason
//! (MIGRATE-GATE).
//!
//! *A client that was cut off* for longer than its TTL has no node, and a list may not show it. It cannot
//! hold anything then. Its joins and writes wait until it has entered again (CLIENT-ACTS-REGISTERED). If it
//! is refused, it ends, and they fail with the reason. A request that it sent before is not undone.
//!
//! *Source.* Register, then read: Dekker's argument. `docs/protocol/clients.md` has the details.

mod arrival;
mod connecting;
mod entrance;
mod fields;
mod keeper;
mod lease_report;
mod listing;
mod marker;
mod place;
mod presence;
mod raise;
mod record;
mod registered;
mod retire;
mod stamp;

pub(crate) use self::listing::{Clients, Keys};
pub use self::place::{clients_address, stamp_address};
pub use self::record::ClientRecord;
pub use crate::decide::layout::{LAYOUT, Stamp};

pub(crate) use self::arrival::Arrival;
pub(crate) use self::fields::Fields;
pub(crate) use self::marker::{another, checked};
pub(crate) use self::place::{Place, is_writers, writers};
pub(crate) use self::raise::raise;
pub(crate) use self::record::OWN_VERSION;
pub(crate) use self::registered::Registered;
pub(crate) use self::retire::{marked, reopen, retire};
pub(crate) use self::stamp::Stamped;
