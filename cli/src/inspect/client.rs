use latchwork::{Config, Coordinator};

use crate::failure::{Failure, Outcome};

/// An operator's client can connect to a retired namespace, and does not prevent its retirement.
pub(super) fn on_a_server(config: &Config, work: impl AsyncFnOnce(&Coordinator) -> Outcome) -> Outcome {
    let config = config.clone().as_operator();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
    let ended = runtime.block_on(latchwork::with(&config, async |coordinator| work(&coordinator).await));
    // Does not wait for a printing thread with a stalled reader.
    runtime.shutdown_background();
    ended
}
