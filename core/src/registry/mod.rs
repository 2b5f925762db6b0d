//! Who is connected, and with which layout: what every client does before it is handed out.
//!
//! *Protocol.* A client registers, and then reads the stamp of its namespace.
//!
//! 1. It joins the queue of the namespace's clients, with its record ([`ClientRecord`]) as the
//!    node's data. The queue admits everybody. The node hangs on the client's lease.
//! 2. It reads the cell with the namespace's layout. Where there is none, it writes its own, under
//!    the condition that there is still none. One that does not work with what it finds is refused.
//!
//! Both come before `connect` answers, and before the first operation of a client that connects
//! lazily: two round trips, and one more for the first client of a namespace. When the node is lost
//! (with its lease, or by an operator's hand, an eviction or a flush) the client does both again by
//! itself, with a back-off, until it is closed. An idle client does so too.
//!
//! Whoever raises the layout announces it in the stamp, then lists the clients, and then writes what
//! the list allows, each time over the very version that it has read (LAYOUT-UNDER-VERSION;
//! [`Stamp`] decides).
//!
//! *Why it is safe.* The invariant is that every client that has entered works with the stamped
//! layout. Take a client that does not work with the next one. Its node stands before it reads
//! (CLIENT-REGISTER-FIRST), and the announcement stands before the list is read
//! (LAYOUT-ANNOUNCE-FIRST). If it registers before the announcement, the list shows it, and the
//! announcement is taken back. If it registers later, it reads the announcement, and is refused. A
//! second one who raises, or one who died half-way, changes nothing: a write over another version
//! than the one that was read is refused (CELL-CAS), and what is announced stays so until somebody
//! settles it. The model `layout` of core's tests takes each of the steps out.
//!
//! With the stamp it reads the *marker* of a namespace that moves to another coordinator, or that an
//! operator has [retired](crate::Operator::retire). A plain client is refused then, and told where
//! to go. The marker is written and the clients are listed in the same order, for the same reason
//! (MIGRATE-GATE).
//!
//! *A client that was cut off* for longer than its TTL has no node, and may be passed over. It cannot
//! hold anything then. Its joins and writes wait until it has entered anew (CLIENT-ACTS-REGISTERED),
//! and if it may not, it ends: they answer why. A request that it sent before is not undone.
//!
//! *Source.* Register, then read: Dekker's argument. `docs/protocol/clients.md` has the whole.

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

pub(crate) use self::fields::Fields;
pub(crate) use self::marker::{another, checked};
pub(crate) use self::place::{Place, is_writers, writers};
pub(crate) use self::raise::raise;
pub(crate) use self::record::OWN_VERSION;
pub(crate) use self::registered::Registered;
pub(crate) use self::retire::{marked, reopen, retire};
pub(crate) use self::stamp::Stamped;
