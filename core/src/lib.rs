//! Contracts, decisions, recipes and the memory backend of Latchwork.
//!
//! Five floors, and everything points down: [`recipes`] and the [`Coordinator`] know the [`contracts`] and
//! nothing of a backend; [`memory`] and the backend crates know the contracts and nothing of the recipes;
//! [`decide`] holds what several of them must decide alike, as pure functions.
//!
//! Comments name protocol rules by letter and number (`RULES A1`): each stands, with what breaks without it, in `RULES.md` beside
//! this crate's manifest, and models plant the absence of nearly all and find it (`RULES.md` names those of which they do not).
//!
//! Use it through the facade crate `latchwork`; a backend crate depends on this one.

mod address;
mod attempt;
mod capabilities;
mod clock;
mod config;
mod connector;
pub mod contracts;
mod coordinator;
pub mod decide;
mod departures;
mod error;
mod hold;
mod holding;
mod label;
mod lazy;
mod live;
mod loss;
pub mod memory;
mod pauses;
pub mod recipes;
mod reentrancy;
mod runtime;
mod shown;
mod token;

pub use address::{Address, Kind, MAX_KEY_BYTES, Name, encode};
pub use capabilities::{Capabilities, Eviction};
pub use clock::{Clock, Moment};
pub use config::{Config, ENDLESS, Secret};
pub use connector::{Connector, connect, connect_lazy};
pub use coordinator::Coordinator;
pub use error::{Error, ErrorKind, LostReason, Result};
pub use hold::{Fenced, Hold, Release};
pub use loss::{Ended, Loss, Run};
pub use pauses::Pauses;
pub use reentrancy::Owner;
pub use token::Token;
