//! Runs the whole conformance suite on an example backend, with one call.
//!
//! ```text
//! cargo run -p own_backend                 # every case, under tokio's paused clock
//! cargo run -p own_backend -- node_cancel  # the cases with this in their name
//! ```
//!
//! `table.rs` is the server, a table in this process; `backend.rs` is the backend; `wire.rs` simulates the
//! network between them; `testbed.rs` gives clients and faults to the suite.

mod backend;

mod table;
mod testbed;
mod watches;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // In a separate crate this is `tests/conformance.rs`, with `harness = false`.
    latchwork_conformance::main(vec![Arc::new(backend::TableConnector::default())], |_runtime| {
        Ok(Box::new(testbed::TableTestbed))
    })
}
