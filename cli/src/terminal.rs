//! Standard output, and Ctrl-C.

use std::io::{self, Write};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, spawn_blocking};

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
    printed(interrupts, spawn_blocking(print)).await
}

/// What is printed one after another in such a thread, whose reader holds nobody up. A reader who has
/// gone stops nothing.
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

    /// Takes a text, which is printed behind those before.
    pub(crate) fn print(&self, text: String) {
        // Nobody reads it, or it cannot be written, which the end says.
        let _ = self.texts.send(text);
    }

    /// Waits until all is printed. Answers as [`print_until`].
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
