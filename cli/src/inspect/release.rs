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
    /// The sequence number of the holder or waiter, as `latchwork inspect` shows it. The server never
    /// uses it again, so a late release does not remove the next holder
    #[arg(long, value_name = "N")]
    sequence: u64,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

impl ReleaseOrder {
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
        Failure::new(
            exit::NOT_ACQUIRED,
            format!("{} has no holder or waiter {} any more", self.name(), self.sequence),
        )
        .next(format!("`latchwork inspect {}` shows the queue", self.name()))
    }

    async fn confirmed(&self, node: &QueueEntry) -> Result<bool, Failure> {
        if !io::stdin().is_terminal() {
            return Err(Failure::usage("the question needs a terminal as standard input")
                .next("add --yes to release without a question"));
        }
        let warning = self.warning(node);
        // The client must go on while the user thinks: a step of a move waits for it.
        let asked = tokio::task::spawn_blocking(move || {
            say(&warning)?;
            let mut answer = String::new();
            io::stdin()
                .lock()
                .read_line(&mut answer)
                .map_err(|error| Failure::machine("the answer cannot be read", error))?;
            Ok(answer.trim().eq_ignore_ascii_case("yes"))
        });
        asked.await.map_err(|error| Failure::machine("the answer cannot be read", error))?
    }

    fn warning(&self, node: &QueueEntry) -> String {
        let (who, label) = (if node.admitted { "holder" } else { "waiter" }, &node.label);
        let mut text = format!("{who} {} of {}: {label}\n", self.sequence, self.name());
        text += match node.admitted {
            true => {
                "The holder loses its hold, and the next waiter in the queue holds at once.\n\
                 The process of the holder is not stopped: it learns of the loss within a TTL, and continues until then.\n\
                 Only fencing stops the last writes of the process: the store refuses a token below the highest\n\
                 token that it has stored.\n\
                 If the process is dead, wait instead: the server ends its lease.\n"
            }
            false => "The waiter loses its place in the queue, and its acquisition fails.\n",
        };
        text + "Release this entry? Type yes:"
    }
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(anstream::stdout(), "{text}")
        .map_err(|error| Failure::machine("standard output cannot be written", error))
}
