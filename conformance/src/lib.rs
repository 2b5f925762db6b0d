//! The suite that every Latchwork backend passes, and the servers and faults it needs.
//!
//! A backend crate adds a test target with `harness = false` that calls [`main`] with its testbed; each
//! case is then a test of its own, named after the clause of the contract that it checks. A case plays on a
//! [`Stage`](testbed::Stage): a place of its own on the server, with clients whose links can be cut. At its end nothing may be
//! left on the server.

mod adapter;
pub mod beds;
#[cfg(feature = "bench")]
pub mod bench;
mod case;
pub mod cases;
pub mod contender;
mod early;
mod exclusive;
mod harness;
mod kit;
pub mod limits;
pub mod log;
pub mod order;
pub mod outages;
mod played;
pub mod proxy;
pub mod report;
pub mod servers;
mod soak;
pub mod stint;
mod taken;
pub mod testbed;
pub mod weather;

pub use adapter::Adapter;
pub use case::Case;
pub use harness::{beside, contender_main, main, main_with_server, play, run};
pub use kit::Scene;
pub use played::Played;
