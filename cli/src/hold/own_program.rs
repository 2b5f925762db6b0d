//! Where this program's file is.

use std::io;
use std::path::PathBuf;

/// This program, to be started again. On Linux also when its file was replaced meanwhile.
pub(super) fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
