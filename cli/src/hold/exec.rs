use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use crate::exit;
use crate::failure::Failure;

/// The arguments from the guard.
#[derive(Debug, Args)]
pub(crate) struct ExecOrder {
    /// The guard's process.
    guard: i32,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn arguments(command: &[OsString]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        vec!["internal-exec".into(), std::process::id().to_string().into(), "--".into()];
    arguments.extend(command.iter().cloned());
    arguments
}

/// On Linux the command dies if its guard is killed. The setting stays after `exec`, unless the program has
/// more privileges (`sudo`).
pub(crate) fn run(order: &ExecOrder) -> Failure {
    if let Err(error) = die_with_parent() {
        return Failure::machine("the command cannot be set to end with its guard process", error);
    }
    // The guard may have died before.
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent != Some(order.guard) {
        return Failure::new(exit::LOST, "the guard of the command is gone").next("start the command again");
    }
    let name = &order.command[0];
    let error = Command::new(name).args(&order.command[1..]).exec();
    let shown = name.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => Failure::new(exit::NOT_FOUND, format!("command {shown:?} was not found"))
            .next("check its name and the PATH"),
        _ => Failure::new(exit::NOT_EXECUTABLE, format!("{shown:?} cannot be executed: {error}"))
            .next("check its permissions and its first line"),
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> rustix::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> rustix::io::Result<()> {
    Ok(())
}
