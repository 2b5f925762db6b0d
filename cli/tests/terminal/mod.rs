//! The program leads the session of the terminal.

use std::process::Stdio;

use latchwork_conformance::child::Child;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::Command;

use crate::common::{Fixture, Run};

/// Ctrl-C.
pub(crate) const INTERRUPT: u8 = 3;
/// Ctrl-\.
pub(crate) const QUIT: u8 = 28;

pub(crate) struct Terminal(Sender);

impl Terminal {
    /// `setsid`, which every Linux has, makes the terminal the controlling one.
    pub(crate) async fn lock(fixture: &Fixture, key: &str, script: &str) -> (Self, Run) {
        let program = env!("CARGO_BIN_EXE_latchwork");
        Self::run(fixture, &[program, "lock", key, "--", "sh", "-c", script]).await
    }

    pub(crate) async fn run(fixture: &Fixture, arguments: &[&str]) -> (Self, Run) {
        let ours =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&ours).expect("a terminal");
        unlockpt(&ours).expect("a terminal");
        let name = ptsname(&ours, Vec::new()).expect("its name").into_string().expect("text");
        let open =
            || async { OpenOptions::new().read(true).write(true).open(&name).await.expect("its other side") };
        let side = || async { Stdio::from(open().await.into_std().await) };
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(arguments).env("LATCHWORK_URL", &fixture.url).kill_on_drop(true);
        command.stdin(side().await).stdout(side().await);
        let ours = std::fs::File::from(ours);
        // Like a pipe, without a thread that keeps the terminal open.
        let screen = Receiver::from_file_unchecked(ours.try_clone().expect("a copy")).expect("read");
        let run = Run::of(Child::on_terminal(command, screen)).await;
        (Self(Sender::from_file_unchecked(ours).expect("written")), run)
    }

    pub(crate) async fn types(&mut self, keys: &[u8]) {
        self.0.write_all(keys).await.expect("typed");
        self.0.flush().await.expect("typed");
    }
}
