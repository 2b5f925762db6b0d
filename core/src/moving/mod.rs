//! A client of two coordinators, between which locks move while they are held, and values while they are
//! used.
//!
//! *Protocol.* `docs/protocol/moving.md` in the repository has the protocol and the argument. The decisions
//! are in [`decide::moving`](crate::decide::moving), which its models drive.
//!
//! * The *stage* (the phase, and the epoch of the tokens) is stored in a cell on the old side.
//! * A participant is a member on the old side: a node in the queue of the move's members. Its data has the
//!   version of the stage that it has acknowledged.

mod acquire;
mod backend;
mod connect;
mod hold;
mod known;
mod listing;
mod member;
mod membership;
mod node;
pub(crate) mod operator;
mod participant;
mod place;
mod reading;
mod side;
mod staged;
#[cfg(test)]
mod tests;
pub(crate) mod values;
mod watch;

pub(crate) use self::acquire::acquire;
pub(crate) use self::connect::{client_number, participate, side_config};
pub(crate) use self::participant::Participant;
pub(crate) use self::side::SideClient;
