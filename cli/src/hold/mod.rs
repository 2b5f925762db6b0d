//! Running a command while holding.
//!
//! ```text
//! the program ---- acquires, renews, releases
//!    |  ^ down: the deadline of the hold, signals; up: how the command ended (a socket)
//!    v  |
//! the guard ------ ends the command in time, even if the program is stopped or killed
//!    |
//!    v
//! the command ---- dies with its guard (Linux)
//! ```
//!
//! All three are in one process group: the command gets the terminal's input, and Ctrl-C and Ctrl-Z reach all
//! three. The program passes on signals that the terminal has not sent to the command. The command must be
//! gone before another client can hold, so the guard ends it by the clock, at the last reported deadline.

mod deadline;
mod descendants;
pub(crate) mod exec;
pub(crate) mod guard;
pub(crate) mod job;
mod message;
pub(crate) mod order;
mod own_program;
mod run;
mod signals;
mod supervisor;

pub(crate) use self::run::run;
