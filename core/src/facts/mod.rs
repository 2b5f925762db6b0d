//! Facts that a server reports about itself, for diagnosis. No acquisition depends on them.

mod clock_difference;
mod fact;
mod server_facts;
mod storage;
mod topology;

pub use clock_difference::ClockDifference;
pub use fact::Fact;
pub use server_facts::ServerFacts;
pub use storage::{MemoryPolicy, Persistence, WhenFull};
pub use topology::{Role, Topology};
