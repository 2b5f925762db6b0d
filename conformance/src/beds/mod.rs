//! The testbeds of the four backends.

mod memory;
mod proxied;

pub use memory::{MemoryBed, Wrap};
pub use proxied::{Admin, OpenAdmin, ServerBed};
