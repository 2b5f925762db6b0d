use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

#[cfg(feature = "compare")]
use crate::compare::{CompareOrder, HolderOrder};
use crate::doctor::DoctorOrder;
use crate::exit;
use crate::hold::exec::ExecOrder;
use crate::hold::guard::GuardOrder;
use crate::hold::order::{CronOrder, ElectOrder, LockOrder, SemaphoreOrder};
use crate::inspect::{InspectOrder, ReleaseOrder};
use crate::migrate::{self, MigrateOrder};
use crate::settings::{Common, FILE};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Distributed locks from the command line: run a command while holding a lock, show holders and
/// waiters, examine a coordinator (Redis, Valkey, ZooKeeper or etcd).
#[derive(Debug, Parser)]
#[command(name = "latchwork", version, styles = STYLES, after_help = EXAMPLES, after_long_help = after_long_help())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while holding a lock
    #[command(after_help = LOCK_EXAMPLES, after_long_help = format!("{LOCK_EXAMPLES}\n\n{}", exit::HELP))]
    Lock(LockOrder),
    /// Runs a command while holding permits of a semaphore
    #[command(after_help = SEMAPHORE_EXAMPLES, after_long_help = format!("{SEMAPHORE_EXAMPLES}\n\n{}", exit::HELP))]
    Semaphore(SemaphoreOrder),
    /// Runs on one host a command that cron starts on many hosts
    #[command(after_help = CRON_EXAMPLES, after_long_help = format!("{CRON_EXAMPLES}\n\n{}", exit::HELP))]
    Cron(CronOrder),
    /// Runs a command while leading an election: on one host, and on the next host if that one dies
    #[command(after_help = ELECT_EXAMPLES, after_long_help = format!("{ELECT_EXAMPLES}\n\n{}", exit::HELP))]
    Elect(ElectOrder),
    /// Shows holders and waiters, and why each waiter waits
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectOrder),
    /// Removes a holder or a waiter from its queue, for operators
    #[command(after_help = RELEASE_EXAMPLES)]
    Release(ReleaseOrder),
    /// Examines a coordinator, and reports each fault with its remedy
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorOrder),
    /// Moves locks to another coordinator while they are held: plan, run, status, abort, finish
    #[command(after_help = migrate::EXAMPLES)]
    Migrate(MigrateOrder),
    /// Measures several coordinators in one run, and reports which one fits which need
    #[cfg(feature = "compare")]
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareOrder),
    /// Prints the completions of a shell
    #[command(after_help = "Examples:\n  latchwork completions bash > /etc/bash_completion.d/latchwork\n  \
        latchwork completions fish > ~/.config/fish/completions/latchwork.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Prints the man page, or writes one for each subcommand into a folder
    #[command(
        after_help = "Examples:\n  latchwork man | man -l -\n  latchwork man /usr/local/share/man/man1"
    )]
    Man {
        /// The folder
        folder: Option<PathBuf>,
    },
    /// Guards the command of a hold (lock starts it)
    #[command(hide = true, name = "internal-guard")]
    Guard(GuardOrder),
    /// Holds a lock until it is killed (compare starts it)
    #[cfg(feature = "compare")]
    #[command(hide = true, name = "internal-holder")]
    Holder(HolderOrder),
    /// Becomes the command, bound to its guard (the guard starts it)
    #[command(hide = true, name = "internal-exec")]
    Exec(ExecOrder),
}

const EXAMPLES: &str = "\
Examples:
  export LATCHWORK_URL=redis://localhost
  latchwork lock backup -- ./backup.sh             one at a time, the others wait their turn
  latchwork cron report -- ./report.sh             in the crontab of every host; runs on one
  latchwork semaphore export --of 3 -- ./export    at most three at a time
  latchwork inspect --watch                        holders and waiters, once a second";

const LOCK_EXAMPLES: &str = "\
Examples:
  latchwork lock backup -- ./backup.sh
  latchwork lock backup --try -- ./backup.sh       do not wait: exit 120 if the lock is taken
  latchwork lock backup --within 30s -- ./backup.sh
  latchwork lock notes -- vim notes.txt
  latchwork lock data --shared -- ./report.sh      as a reader; --exclusive: as the writer
  latchwork lock deploy -- sh -c 'psql -v fence=$LATCHWORK_TOKEN -f deploy.sql'";

const SEMAPHORE_EXAMPLES: &str = "\
Examples:
  latchwork semaphore export --of 3 -- ./export.sh
  latchwork semaphore export --permits 2 --of 8 -- ./big-export.sh";

const CRON_EXAMPLES: &str = "\
Examples, in the crontab of every host:
  0 3 * * *  latchwork cron report -- /opt/report.sh
  */5 * * *  latchwork cron sweep --min-hold 1m -- /opt/sweep.sh";

const ELECT_EXAMPLES: &str = "\
Examples:
  latchwork elect scheduler -- ./scheduler --active
  latchwork elect scheduler --data \"$HOSTNAME:8080\" -- ./scheduler --active";

const INSPECT_EXAMPLES: &str = "\
Examples:
  latchwork inspect                    all queues in use
  latchwork inspect mutex/backup       one lock
  latchwork inspect invoices/ --watch  all keys with this prefix, again each second
  latchwork inspect semaphore/ --json  all semaphores, as JSON";

const RELEASE_EXAMPLES: &str = "\
Example:
  latchwork inspect mutex/backup       shows the sequence number
  latchwork release mutex/backup --sequence 1795515830065004

Exit codes: 120 if no holder or waiter has this number, 122 if the coordinator does not answer";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  latchwork doctor redis://localhost
  latchwork doctor --json

Exit codes: 0 without a fault, 122 with one";

#[cfg(feature = "compare")]
const COMPARE_EXAMPLES: &str = "\
Examples:
  latchwork compare --quick                      memory and the installed servers, under a minute
  latchwork compare redis etcd                   these two, started for the run
  latchwork compare redis redis://cache:6379     a server started here and a running server
  latchwork compare --save before.json; latchwork compare --baseline before.json

The program asks before it measures a server that you give by URL (in scripts: --yes). It uses a
separate namespace there and deletes it at the end. It never stops, restarts or slows such a
server: trials that would are left out. A server that already runs on this machine is compared
only if you give its URL.

Exit code: 122 if a coordinator does not answer, or a trial failed";

fn after_long_help() -> String {
    format!("{EXAMPLES}\n\n{FILE}\n\n{}", exit::HELP)
}

pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    match error.use_stderr() {
        true => exit::USAGE.into(),
        false => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_subcommand_takes_the_options_that_name_a_coordinator() {
        let mut cli = Cli::command();
        cli.build();
        for subcommand in cli.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
            for option in ["url", "coordinator", "config"] {
                let takes = subcommand.get_arguments().any(|argument| argument.get_long() == Some(option));
                assert!(takes, "{} has no --{option}", subcommand.get_name());
            }
        }
    }

    /// clap does not wrap this text.
    #[test]
    fn examples_and_notes_fit_into_a_line_of_the_help() {
        let mut cli = Cli::command();
        cli.build();
        for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
            let texts = [command.get_after_help(), command.get_after_long_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                let long = text.lines().find(|line| line.chars().count() > 100);
                assert!(long.is_none(), "{}: {long:?}", command.get_name());
            }
        }
    }
}
