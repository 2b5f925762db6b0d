//! Owners and hold counts: one node on the server for all holds of an owner.
//!
//! A coordinator keeps a ledger of what its owners hold. The ledger is a value that knows no server and no task, so
//! that tests can play every order of events on the code that runs.

mod acquisition;
mod ledger;
#[cfg(test)]
mod model;
mod owner;
mod owners;
mod share;

pub(crate) use acquisition::Bounds;
pub(crate) use ledger::Mode;
pub use owner::Owner;
pub(crate) use owners::Owners;
pub(crate) use share::Share;
