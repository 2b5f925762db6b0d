//! The suite that every Latchwork backend passes.
//!
//! A test target with `harness = false` calls [`main`] with a [`Testbed`](testbed::Testbed). Each case is a test on a
//! [`Fixture`](testbed::Fixture): a separate place on the server, and clients whose links can be cut. At its end, nothing may be
//! left there.

// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod actions;
mod adapter;
mod bounds;
mod case;
pub mod cases;
pub mod cell_actions;
pub mod child;
mod context;
pub mod ensemble_faults;
pub mod errors;
mod exclusive;
pub mod failover;
pub mod fenced;
mod harness;
pub mod hold_record;
pub mod limits;
pub mod log;
pub mod lost_events;
pub mod mistakes;
pub mod moves;
pub mod once_more;
pub mod outages;
mod own_process;
pub mod patience;
mod played;
pub mod recorder;
pub mod report;
mod roles;
mod runtime;
pub mod selection;
pub mod server_faults;
mod suite;
pub mod summary;
mod taken;
pub mod testbed;
pub mod testbeds;
pub mod vault;
mod wait;
mod waits;
mod witness;

pub use latchwork_servers::{self as servers, proxy};

pub use adapter::Adapter;
pub use case::Case;
pub use context::Context;
pub use harness::play;
pub use own_process::{is_own_process, own_process_test};
pub use played::Played;
pub use roles::{contender_main, contender_test, contender_test_in};
pub use suite::{Beds, EXCUSED, Ended, main, run};
