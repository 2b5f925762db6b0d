//! The contracts, recipes and memory backend of Latchwork.
//!
//! Programs use the facade crate `latchwork`; backend crates depend on this crate. The modules form layers.
//! Each module imports only from its own layer and the layers below:
//!
//! ```text
//! moving::operator               the operator of a move between two coordinators
//! blocking                       blocking calls for threads
//! connect, memory                from a Config to a Coordinator; the backend without a server
//! coordinator, lazy              the user's handle; a backend that connects at its first use
//! recipes                        mutex, rwlock, semaphore, and the other recipes, with their guards
//! reentrancy                     owners: one node for several holds
//! moving                         a client of both sides of a move: its membership, acquisitions, holds
//! registry                       the connected clients and the layout of a namespace
//! attempt, held_node             one acquisition; one held node, until its release
//! client                         one connected client, shared by the layers above
//! watched                        one watch on the server for all watchers of a cell
//! cleanup, hold                  background removal of nodes; the common part of all guards
//! connector                      opens a backend
//! support, config, logins, label tools for the clients of all backends; a client's settings
//! contracts, decide              a backend's traits and their state; protocol decisions without I/O
//! listing                        listings, page by page
//! seen                           every event, span and metric, by name
//! address, token, clock, error, capabilities, facts, credentials, secret, shown, until, runtime, when_dropped
//! ```
//!
//! [`memory`] and the backend crates implement the [contracts](backend) and use no recipe. The recipes use
//! the contracts and know no backend. [`decide`](backend::decide) contains the decisions that several
//! backends share, as pure functions for model checkers.
//!
//! Comments cite protocol rules by name, e.g. (QUEUE-NOTIFY-ALL-ADMITTED). `docs/protocol/rules.md` in the
//! repository states each rule, what breaks without it, and which tests check it. Names such as
//! LEASE-DEADLINE are clauses of the [contracts](backend).

mod address;
mod attempt;
pub mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
mod by_address;
mod capabilities;
mod cleanup;
mod client;
mod clock;
mod config;
mod connect;
mod connector;
mod contracts;
mod coordinator;
mod count_writer;
mod credentials;
mod decide;
mod desk;
mod error;
pub mod facts;
mod held_node;
mod hold;
mod label;
mod listing;
mod logins;
pub mod memory;
mod moving;
mod pages;
pub mod recipes;
mod reentrancy;
mod registration;
mod registry;
mod runtime;
mod secret;
pub mod seen;
mod server_trial;
mod shown;
mod support;
mod token;
mod until;
mod watched;
mod when_dropped;

pub use address::{Address, Key, Kind, MAX_KEY_BYTES, QueuePrefix, encode};
pub use capabilities::{Capabilities, Eviction};
pub use clock::{Clock, Moment};
pub use config::{Config, ENDLESS, MoveConfig, Options};
pub use connect::{check, connect, connect_lazy};
pub use connector::Connector;
pub use contracts::{CellLife, Expected, Lease, LeaseState, Limit, ListedKey, TimeToIdle, Version};
pub use coordinator::{Coordinator, close::crash, operator::Operator};
pub use credentials::{Credentials, CredentialsProvider};
pub use decide::Claim;
pub use error::{Error, ErrorKind, LostReason, Result};
pub use hold::{Ended, HoldState, Loss};
pub use listing::{Listing, Page};
pub use logins::Logins;
pub use moving::operator::{
    Move, MoveAway, MoveBlocker, MoveClient, MoveLate, MoveOutsider, MovePlan, MoveProgress, MovePromises,
    MoveState, MoveStatus, QueuesInUse, ValuesInUse,
};
pub use recipes::{Fenced, Hold};
pub use reentrancy::Owner;
pub use registry::ClientRecord;
pub use secret::Secret;
pub use token::Token;
