//! The suite that every Latchwork backend passes, and the servers and faults it needs.

pub mod proxy;
pub mod servers;
