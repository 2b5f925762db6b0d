//! A client for one command.

use latchwork::{Config, Coordinator};

use crate::failure::{Failure, Outcome};

/// Runs `work` with an operator's client of the coordinator. Such a client acquires no lock, can connect
/// to a retired namespace, and does not prevent its retirement.
pub(super) fn on_a_server(config: &Config, work: impl AsyncFnOnce(&Coordinator) -> Outcome) -> Outcome {
    let config = config.clone().as_operator();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
    let ended = runtime.block_on(latchwork::with(&config, async |coordinator| work(&coordinator).await));
    // Does not wait for a printing thread whose reader has stopped reading.
    runtime.shutdown_background();
    ended
}
