//! Servers that are killed and stopped under load, failovers to a replica, and default clocks.

mod chaos;
mod default_clocks;
pub(crate) mod quorum;
mod replicas;
