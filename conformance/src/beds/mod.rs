//! The testbeds of the four backends.

mod memory;
mod proxied;

pub use memory::MemoryBed;
pub use proxied::{Admin, ServerBed};
