//! Tests of this crate through its public interface, on memory.

mod common;

mod api;
mod budget;
mod cells;
mod cleanup;
mod config;
mod confirm;
mod elections;
mod guards;
mod kept;
mod lazy;
mod limits;
mod many_holds;
mod moving;
mod multi_lock;
mod quorum_lock;
mod registry;
mod runtimes;
mod silence;
mod tls;
