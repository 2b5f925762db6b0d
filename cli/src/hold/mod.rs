//! Running a command while holding.
//!
//! ```text
//! the program ---- leases, renews, releases
//!    |  ^ until when the hold is good, signals; how the command ended (a socket)
//!    v  |
//! the guard ------ ends the command in time, whatever becomes of the program
//!    |
//!    v
//! the command ---- dies with its guard (Linux)
//! ```
//!
//! All three are in one process group, so that the terminal treats them as one: what is typed goes to
//! the command, and Ctrl-C and Ctrl-Z reach all. The program passes signals on, but not those that the
//! terminal has sent to the command already. It has to be gone before another client can hold, so the
//! guard ends it by the clock, at the deadline that the program has told it last.

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
