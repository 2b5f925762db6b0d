use std::io::{self, Read, Write};
use std::time::Duration;

use clap::Args;
use latchwork::Config;

use crate::exit::Ended;
use crate::failure::{Failure, Outcome};

/// The URL is in the environment, since it can contain a password.
#[derive(Debug, Args)]
pub(crate) struct HolderOrder {
    namespace: String,
    ttl_ms: u64,
    key: String,
    #[arg(env = "LATCHWORK_URL", hide_env_values = true)]
    at: String,
}

impl HolderOrder {
    pub(crate) fn run(&self) -> Outcome {
        let mut config = Config::from_url(&self.at)?;
        config.namespace.clone_from(&self.namespace);
        config.ttl = Duration::from_millis(self.ttl_ms);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
        let ended: latchwork::Result<()> = runtime.block_on(latchwork::with(&config, async |coordinator| {
            let hold = coordinator.mutex(self.key.as_str())?.acquire().await?;
            // If the reader is gone, standard input ends too.
            let _ = writeln!(io::stdout(), "held").and_then(|()| io::stdout().flush());
            let end = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
            let _ = end.await;
            hold.release().await.map(drop)
        }));
        ended?;
        Ok(Ended::WELL)
    }
}
