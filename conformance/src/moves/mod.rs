//! Processes that contend while their locks move between two coordinators, there and back.
//!
//! Eight processes contend for six mutexes, two semaphores and a read/write lock, each for all of them,
//! without a pause, and add to a counter. Beside that nothing happens but steps ([`there_and_back`]), which may also
//! be between two namespaces of one server ([`MovingSide::beside`]); or processes are killed in each phase, and one is
//! stopped beside a step and goes on ([`with_processes_killed`]); or servers fail, beside steps and where the move is
//! *done* ([`with_servers_failing`]); or operators are killed at each of their requests, on the way to *done*, and as
//! they finish it ([`with_operators_killed`]). The verdict comes afterwards, by what the processes have said, with
//! arithmetic alone.
//!
//! *What is judged.* Nobody holds beside another. Tokens rise in the order of holding, and a resource that they
//! fence refuses nothing. Each add is made once, and the counter never goes back. Nothing is left on either side. And
//! no key is without a grant for longer than its bound: a change of phase delays an acquisition by at most one request
//! to each side and a read of the stage; beyond that only a dead holder's or a dead member's node does, until its lease
//! has ended, which is a TTL and the expiry bound of each side, and a server that is away, for as long as it is. A step
//! waits for the dead, and for one who is stopped, until their leases have ended and not for longer. Where the move is
//! *done* nobody waits for the old side: all keys are granted while it fails.
//!
//! *What a hold is.* A process says when each begins, and when it ends. One that is lost counts up to the last time at
//! which its process believed that it held, and one whose process is killed counts as the instant in which it began.
//! Either is a lower bound.

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
