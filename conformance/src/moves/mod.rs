//! Processes contend while their locks move between two coordinators.
//!
//! Eight processes contend for six mutexes, two semaphores and a read/write lock, and add to a counter:
//!
//! | run | happenings |
//! |---|---|
//! | [`there_and_back`] | only steps of the move; also between two namespaces of one server ([`MovingSide::beside`]) |
//! | [`with_processes_killed`] | processes are killed in each phase; one is stopped during a step, and continues |
//! | [`with_servers_failing`] | servers fail, during steps and when the move is *done* |
//! | [`with_operators_killed`] | operators are killed at each of their requests, on the way to *done* and during `finish` |
//!
//! The verdict compares numbers in the reports of the processes.
//!
//! # The rules
//! - Holds do not overlap, tokens rise, and a fenced resource refuses no write.
//! - Each add is made once, and the counter never goes back.
//! - No data is left on either side.
//! - A change of phase delays an acquisition by at most one request to each side and a read of the stage. Longer delays are only
//!   the node of a dead holder or member, until its lease has ended (a TTL and the expiry bound of each side), and the outage of a
//!   server.
//! - A step waits for dead and stopped processes only until their leases have ended.
//! - In *done*, all keys are granted while the old side fails.
//!
//! A lost hold counts up to the last time at which its process knew that it held, and a killed process's hold as the instant of its
//! start. Both are lower bounds.

mod advance;
mod counted;
mod delay;
mod dying_operator;
mod ends;
mod fault;
mod fleet;
mod grant;
mod heard;
#[cfg(test)]
mod histories;
mod keys;
mod killed_operators;
mod killed_processes;
mod operates;
mod rule;
mod run;
mod server_faults;
mod side;
mod there_and_back;
mod traffic;
mod verdict;
mod walk;
mod worker;

pub use self::counted::NOTHING_ADDED;
pub use self::fleet::PLANT;
pub use self::killed_operators::{Points, with_operators_killed};
pub use self::killed_processes::with_processes_killed;
pub(crate) use self::operates::Operates;
pub use self::server_faults::{Extent, with_servers_failing};
pub use self::side::MovingSide;
pub use self::there_and_back::{Connectors, Plants, there_and_back};
pub(crate) use self::traffic::Traffic;
