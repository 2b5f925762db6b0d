//! A backend of your own, and the one call that plays the whole suite on it.
//!
//! ```text
//! cargo run --example own_backend                 # every case, under tokio's paused clock
//! cargo run --example own_backend -- node_cancel  # those whose name has this
//! ```
//!
//! `table.rs` is the server, a table in this process; `backend.rs` the client, which is the backend; `wire.rs` stands for the
//! network between them, so that requests can be lost. `bed.rs` tells the suite how to get clients, and which faults it may lay.

mod backend;
mod bed;
mod table;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // In a crate of its own this is `tests/conformance.rs`, with `harness = false`.
    latchwork_conformance::main(vec![Arc::new(backend::TableConnector)], |_runtime| {
        Ok(Box::new(bed::TableBed))
    })
}
