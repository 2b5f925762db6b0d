//! A TCP proxy with the faults of networks. A [`Proxy`] forwards bytes between clients and one server:
//!
//! | fault | meaning |
//! |---|---|
//! | [`cut`](Proxy::cut) | closes open and new connections; waiting bytes are lost |
//! | [`sever`](Proxy::sever) | closes open connections; waiting bytes are lost |
//! | [`refuse`](Proxy::refuse) | closes new connections |
//! | [`hold`](Proxy::hold) | bytes of one direction wait; new connections are accepted and wait too |
//! | [`delay`](Proxy::delay) | bytes of one direction arrive later, in order |
//! | [`narrow`](Proxy::narrow) | limits the rate of one direction |
//! | [`drop_reply_to`](Proxy::drop_reply_to) | one request reaches the server, but its reply does not reach the client |
//! | [`hold_reply_to`](Proxy::hold_reply_to) | the same, but the reply comes with [`resume`](Proxy::resume) |
//! | [`park_request`](Proxy::park_request) | the client loses its connection, and its request reaches the server later |
//!
//! A stream protocol cannot lose one message and continue, so the client's connection breaks when a reply is
//! lost.
//!
//! A chunk is the bytes of one read from a socket, which can contain several requests. So a matcher should
//! look for a short, unique text, such as the key of the test.
//!
//! A fault that waits for a request returns an [`Event`], so that a test awaits the fault instead of a time.

mod answer;
mod faults;
mod front;
mod link;
mod readdress;
mod shared;
mod trap;

pub use faults::Direction;
pub use front::Proxy;
pub(crate) use shared::Manners;
pub use trap::{Event, EventLost, Parked};
