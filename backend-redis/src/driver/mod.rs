//! The one connection to each server, for commands and messages. Only this module calls the client crate.
//!
//! A broken connection is dialled again, with name resolution, login, checks and subscription. (The crate's
//! connection manager stays with a demoted master for ever, and ignores a refused subscription.)

mod bounded;
mod cluster;
pub(crate) mod command;
mod confirming;
mod connection;
mod cursor;
mod dial;
mod facts;
mod handshake;
mod incarnation;
pub(crate) mod info;
mod link;
mod listen;
mod map;
mod open;
mod refresh;
mod routing;
mod sentinels;
mod silence;
mod slots;
mod sweep;
mod switches;
#[cfg(test)]
mod tests;
mod wait_command;

pub(crate) use confirming::{Burst, ConfirmingConnection};
pub(crate) use cursor::Cursor;
pub(crate) use dial::{OnMessage, Setup};
pub(crate) use facts::Said;
pub(crate) use info::Info;
pub(crate) use link::LiveConnection;
pub(crate) use routing::{Driver, Lost, Place, by_server, of_two_slots};
pub(crate) use sentinels::Replaced;
pub(crate) use sweep::sweep;
