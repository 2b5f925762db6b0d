//! Standard output, and Ctrl-C.

use std::io::{self, Write};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Whether what was printed has a reader still. One that has closed its end has all it wants.
pub(crate) fn was_read(printed: io::Result<()>) -> Result<bool, Failure> {
    match printed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unwritten(error)),
    }
}

/// Prints. Answers whether somebody still reads it.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<bool, Failure> {
    let mut stdout = io::stdout();
    was_read(stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()))
}

/// Ctrl-C from now on, which ends this program by itself no more.
pub(crate) fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(|error| Failure::machine("no Ctrl-C", error))
}

/// Prints in a thread of its own, since a reader may stand still: Ctrl-C ends it also then. Answers
/// whether to go on: somebody still reads it, and nobody pressed Ctrl-C.
pub(crate) async fn print_until(
    interrupts: &mut Signal,
    print: impl FnOnce() -> Result<bool, Failure> + Send + 'static,
) -> Result<bool, Failure> {
    tokio::select! {
        _ = interrupts.recv() => Ok(false),
        printed = tokio::task::spawn_blocking(print) => printed.map_err(unwritten)?,
    }
}

fn unwritten(error: impl std::fmt::Display) -> Failure {
    Failure::machine("standard output cannot be written", error)
}
