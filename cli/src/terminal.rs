use std::io::{self, Write};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::failure::Failure;

/// Returns whether the reader of standard output still exists.
pub(crate) fn was_read(printed: io::Result<()>) -> Result<bool, Failure> {
    match printed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unwritten(error)),
    }
}

/// Returns as [`was_read`].
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<bool, Failure> {
    let mut stdout = io::stdout();
    was_read(stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()))
}

/// From now on Ctrl-C does not end this program.
pub(crate) fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(|error| Failure::machine("Ctrl-C cannot be handled", error))
}

/// A separate thread prints, so that Ctrl-C works even if the reader stalls. Returns whether to continue: the
/// reader exists, and Ctrl-C was not pressed.
pub(crate) async fn print_until(
    interrupts: &mut Signal,
    print: impl FnOnce() -> Result<bool, Failure> + Send + 'static,
) -> Result<bool, Failure> {
    printed(interrupts, spawn_blocking(print)).await
}

/// A separate thread prints, so that a stalled reader delays no other work. A reader that is gone stops only
/// the printing.
pub(crate) struct Printing {
    texts: UnboundedSender<String>,
    thread: JoinHandle<Result<bool, Failure>>,
}

impl Printing {
    pub(crate) fn new() -> Self {
        let (texts, mut given) = unbounded_channel::<String>();
        let thread = spawn_blocking(move || {
            while let Some(text) = given.blocking_recv() {
                if !print(text)? {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        Self { texts, thread }
    }

    pub(crate) fn print(&self, text: String) {
        // `ended` reports a failed write.
        let _ = self.texts.send(text);
    }

    pub(crate) async fn ended(self, interrupts: &mut Signal) -> Result<bool, Failure> {
        drop(self.texts);
        printed(interrupts, self.thread).await
    }
}

async fn printed(
    interrupts: &mut Signal,
    printing: JoinHandle<Result<bool, Failure>>,
) -> Result<bool, Failure> {
    tokio::select! {
        _ = interrupts.recv() => Ok(false),
        printed = printing => printed.map_err(unwritten)?,
    }
}

fn unwritten(error: impl std::fmt::Display) -> Failure {
    Failure::machine("standard output cannot be written", error)
}
