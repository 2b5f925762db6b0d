//! The registry: the connected clients of a namespace, and its layout.
//!
//! A client registers in the queue of clients, and then reads the *stamp*: the cell with the layout and the
//! marker. It does so before its first use, and again whenever its node is lost.
//!
//! *Why it is safe* (Dekker's argument). A client registers before it reads (CLIENT-REGISTER-FIRST). An
//! operator writes before it lists (LAYOUT-ANNOUNCE-FIRST, MIGRATE-GATE). So either the list shows the
//! client, or the client reads the change. `docs/protocol/clients.md` has the argument; core's model `layout`
//! removes each step.

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
