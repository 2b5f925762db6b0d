//! An operator's forced release.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use latchwork::{Address, Config, Coordinator};
use latchwork_core::backend::{EntryPage, QueueEntry};

use super::client::on_a_server;
use super::table::printable;
use super::target::QueueName;
use crate::exit::{self, Ended};
use crate::failure::{Failure, Outcome};
use crate::settings::Common;

#[derive(Debug, Args)]
pub(crate) struct ReleaseOrder {
    /// KIND/KEY, such as mutex/backup
    queue: QueueName,
    /// The number of the holder or waiter, as `latchwork inspect` shows it. It is never given out
    /// again, so a late release takes nothing from the next holder
    #[arg(long, value_name = "N")]
    sequence: u64,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl ReleaseOrder {
    /// Removes one holder or waiter.
    pub(crate) fn run(&self, common: &Common) -> Outcome {
        let config = common.coordinator()?;
        on_a_server(&config, async |coordinator| self.release(coordinator, &config).await)
    }

    async fn release(&self, coordinator: &Coordinator, config: &Config) -> Outcome {
        let address = Address::new(&config.namespace, self.queue.kind, self.queue.key.as_str())?;
        let page = EntryPage::new(self.sequence.saturating_sub(1), 1);
        let listed = coordinator.backend().list(&address, page).await?;
        let node =
            listed.into_iter().find(|entry| entry.sequence == self.sequence).ok_or_else(|| self.gone())?;
        if !self.yes && !self.confirmed(&node).await? {
            return Err(Failure::new(exit::USAGE, "nothing was released").next("answer yes, or give --yes"));
        }
        match coordinator.backend().revoke(&address, self.sequence).await? {
            true => {
                say(&format!("released: {} of {}", self.sequence, self.name()))?;
                Ok(Ended::WELL)
            }
            false => Err(self.gone()),
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.queue.kind.as_str(), printable(&self.queue.key))
    }

    fn gone(&self) -> Failure {
        Failure::new(exit::NOT_ACQUIRED, format!("{} has no {} (any more)", self.name(), self.sequence))
            .next(format!("`latchwork inspect {}` shows who is there", self.name()))
    }

    /// Says what will happen, and asks.
    async fn confirmed(&self, node: &QueueEntry) -> Result<bool, Failure> {
        if !io::stdin().is_terminal() {
            return Err(Failure::usage("nobody is there to be asked").next("give --yes if it is meant"));
        }
        let warning = self.warning(node);
        // In a thread of its own: the client is kept while somebody thinks, and a step of a move waits for it.
        let asked = tokio::task::spawn_blocking(move || {
            say(&warning)?;
            let mut answer = String::new();
            io::stdin()
                .lock()
                .read_line(&mut answer)
                .map_err(|error| Failure::machine("no answer", error))?;
            Ok(answer.trim().eq_ignore_ascii_case("yes"))
        });
        asked.await.map_err(|error| Failure::machine("no answer", error))?
    }

    fn warning(&self, node: &QueueEntry) -> String {
        let (who, label) = (if node.admitted { "holder" } else { "waiter" }, &node.label);
        let mut text = format!("{who} {} of {}: {label}\n", self.sequence, self.name());
        text += match node.admitted {
            true => {
                "It loses what it holds, and the next in the queue holds at once.\n\
                 Its process is not stopped: it hears of the loss within a TTL, and works on until then.\n\
                 Only fencing keeps its last writes out: a resource that refuses a token below the\n\
                 highest it has seen.\n\
                 If its process is dead, wait instead: its lease ends by itself.\n"
            }
            false => "It loses its place in the queue, and its acquisition fails.\n",
        };
        text + "Release it? Type yes:"
    }
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(anstream::stdout(), "{text}")
        .map_err(|error| Failure::machine("standard output cannot be written", error))
}
