//! The path of this program's file.

use std::io;
use std::path::PathBuf;

/// Returns a path that starts this program again. On Linux it works also if the file was replaced.
pub(super) fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
