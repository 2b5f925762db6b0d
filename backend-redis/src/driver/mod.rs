//! The one connection to the server, for commands and messages: the only place that calls the
//! client crate. A client whose acquisitions replicas confirm has a second one for that, made at
//! the first of them.
//!
//! When the connection breaks, or its server is no master any more, the driver dials again: name
//! resolution, login, checks and subscription anew. (The crate's own connection manager stays with
//! a demoted master for ever, and ignores a refused subscription.)

mod bounded;
mod command;
mod confirming;
mod connection;
mod dial;
mod handshake;
mod incarnation;
mod info;
mod link;
mod sentinels;
mod silence;
mod switches;
mod wait_command;

pub(crate) use confirming::{Burst, ConfirmingConnection};
pub(crate) use connection::Driver;
pub(crate) use link::{Losses, Standing};
