//! Owners of holds. The ledger does no I/O, so that a model can run every order of events on the real code.

mod ledger;
mod owner;
mod owners;
mod share;
mod waiting;

pub(crate) use ledger::Mode;
pub use owner::Owner;
pub(crate) use owners::Owners;
pub(crate) use share::Share;
pub(crate) use waiting::Bounds;
