//! A client for as long as one command.

use latchwork::{Config, Coordinator};

use crate::failure::{Failure, Outcome};

/// Runs `work` with an operator's client of the coordinator: who looks, or takes a holder out, takes no
/// lock, is let in where the namespace is retired, and keeps nobody from retiring it.
pub(super) fn on_a_server(config: &Config, work: impl AsyncFnOnce(&Coordinator) -> Outcome) -> Outcome {
    let config = config.clone().as_operator();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
    let ended = runtime.block_on(latchwork::with(&config, async |coordinator| work(&coordinator).await));
    // A thread that prints for a reader who stands still is not waited for.
    runtime.shutdown_background();
    ended
}
