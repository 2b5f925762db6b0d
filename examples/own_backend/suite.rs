//! A backend of your own, and the one call that runs the whole suite on it.
//!
//! ```text
//! cargo run -p own_backend                 # every case, under tokio's paused clock
//! cargo run -p own_backend -- node_cancel  # the cases with this in their name
//! ```
//!
//! `table.rs` is the server, a table in this process. `backend.rs` is the client, which is the
//! backend. `wire.rs` stands for the network between them, so that requests can be lost.
//! `testbed.rs` gives the suite clients and faults.

mod backend;

mod table;
mod testbed;
mod watches;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // In a crate of its own this is `tests/conformance.rs`, with `harness = false`.
    latchwork_conformance::main(vec![Arc::new(backend::TableConnector::default())], |_runtime| {
        Ok(Box::new(testbed::TableTestbed))
    })
}
