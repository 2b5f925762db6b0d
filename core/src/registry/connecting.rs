use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Instant;

use tokio::runtime::Handle;

use super::entrance::Entrance;
use super::keeper::Keeper;
use super::presence::Entered;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{Backend, Close};
use crate::error::Result;
use crate::seen;
use crate::shown::in_millis;
use crate::support::connect_within;
use crate::when_dropped::WhenDropped;

/// Connects and enters within `connect_timeout`, and stores the `epoch` of the tokens.
pub(super) async fn connect_in_time(
    connector: &dyn Connector,
    config: &Config,
    epoch: &Arc<AtomicU16>,
) -> Result<Entered> {
    let begun = Instant::now();
    let entrance = Entrance::of(config, epoch)?;
    let connecting = async {
        let backend = connector.connect(config).await?;
        let client = Arc::clone(&backend);
        let dropped = WhenDropped::new(|| give_back(client));
        match entrance.enter_at_last(&backend).await {
            Ok(entry) => {
                dropped.disarm();
                seen::describe();
                Ok(Keeper::start(entrance, backend, entry))
            }
            Err(refused) => {
                if let Err(error) = backend.close(Close::Orderly).await {
                    tracing::debug!(%error, "could not close a client in order that was not admitted: its lease expires");
                }
                dropped.disarm();
                Err(refused)
            }
        }
    };
    let connected = connect_within(config.connect_timeout, &config.backend, &config.hosts, connecting).await;
    let entered = connected.map_err(|error| error.in_operation("connect"))?;
    let took = in_millis(begun.elapsed());
    seen::connected(connector.name(), &config.hosts.join(","), took);
    Ok(entered)
}

/// Closes the client of a dropped or slow connect. Its node would remain until the lease ends.
fn give_back(backend: Arc<dyn Backend>) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move {
            if let Err(error) = backend.close(Close::Orderly).await {
                tracing::debug!(%error, "could not close the client of a dropped connect: it remains until its lease expires");
            }
        });
    }
}
