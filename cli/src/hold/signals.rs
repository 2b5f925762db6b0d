use std::fs;
use std::io;
use std::thread;

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use tokio::sync::mpsc;

const PASSED_ON: [i32; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) number: i32,
    /// The terminal sent it to the command too.
    pub(super) from_terminal: bool,
}

/// A signal that this process ignores from its start stays ignored, also for the command: `nohup` and
/// background jobs of scripts rely on it.
pub(super) fn receive() -> io::Result<mpsc::UnboundedReceiver<Received>> {
    let mut signals = SignalsInfo::<WithOrigin>::new(heeded())?;
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for Origin { signal, cause, .. } in signals.forever() {
            let from_terminal = cause == Cause::Kernel && !(signal == SIGHUP && leads_session());
            let received = Received { number: signal, from_terminal };
            if sender.send(received).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The command inherits ignored signals, but not this.
pub(super) fn shrug_off() -> io::Result<SignalsInfo> {
    SignalsInfo::new(heeded())
}

/// A terminal that closes sends SIGHUP only to the leader of its session: the shell, or this program if it
/// was started without one (`ssh -t HOST latchwork …`). The leader passes it on.
fn leads_session() -> bool {
    rustix::process::getsid(None).is_ok_and(|session| session == rustix::process::getpid())
}

pub(super) fn signal(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}

fn heeded() -> Vec<i32> {
    let ignored = ignored();
    PASSED_ON.into_iter().filter(|number| ignored & (1 << (number - 1)) == 0).collect()
}

/// Only Linux reports them.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
