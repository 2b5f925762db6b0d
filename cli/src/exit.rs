use std::process::ExitCode;

pub(crate) const NOT_ACQUIRED: u8 = 120;
/// The hold was lost, so the program ended the command.
pub(crate) const LOST: u8 = 121;
pub(crate) const COORDINATOR: u8 = 122;
pub(crate) const USAGE: u8 = 125;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the signal that ended the command, or this program before it held.
pub(crate) const BY_SIGNAL: u8 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    With(u8),
    /// The terminal sends the signal to all its programs: a script that started this program should end by it
    /// too.
    By(i32),
}

impl Ended {
    pub(crate) const WELL: Ended = Ended::With(0);
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::With(code) => code.into(),
            Ended::By(signal) => {
                // Shells show 128 + the number, as the code below does if the signal does not end this
                // process.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                by_signal(signal).into()
            }
        }
    }
}

/// As shells show it.
pub(crate) fn by_signal(signal: i32) -> u8 {
    BY_SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX))
}

pub(crate) const HELP: &str = "\
Exit codes:
  the command's code, or 128 + n if signal n ended it
  120  not acquired: other clients hold or wait
  121  the hold was lost or nearly lost, so the program ended the command
  122  the coordinator does not answer, or refuses
  125  bad usage, or a fault of this program or of this machine
  126  the command cannot be executed
  127  the command was not found";
