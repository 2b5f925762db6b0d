//! Processes contend while their locks move between two coordinators, there and back.
//!
//! Eight processes contend without a pause for six mutexes, two semaphores and a read/write lock, each process for all of them, and
//! add to a counter. There are four kinds of run:
//!
//! | run | happenings |
//! |---|---|
//! | [`there_and_back`] | only steps of the move; also between two namespaces of one server ([`MovingSide::beside`]) |
//! | [`with_processes_killed`] | processes are killed in each phase; one is stopped during a step, and continues |
//! | [`with_servers_failing`] | servers fail, during steps and when the move is *done* |
//! | [`with_operators_killed`] | operators are killed at each of their requests, on the way to *done* and during `finish` |
//!
//! The verdict comes afterwards. It uses only the reports of the processes, and compares numbers.
//!
//! # The rules
//! - Holds do not overlap. Tokens rise in the order of holding, and a fenced resource refuses no write.
//! - Each add is made once, and the counter never goes back.
//! - No data is left on either side.
//! - No key is without a grant for longer than its bound. A change of phase delays an acquisition by at most one request to each side
//!   and a read of the stage. The only longer delays are the node of a dead holder or member, until its lease has ended (a TTL
//!   and the expiry bound of each side), and a server that does not answer, during its outage.
//! - A step waits for dead and stopped processes only until their leases have ended.
//! - When the move is *done*, no acquisition waits for the old side: all keys are granted while it fails.
//!
//! # The records
//! A process reports the start and the end of each hold. A lost hold counts up to the last time at which its process knew that it
//! held. A hold whose process is killed counts as the instant of its start. Both are lower bounds.

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
