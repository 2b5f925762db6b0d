//! A TCP proxy that does to a connection what networks do: cut it, hold it, slow it, lose one
//! reply.
//!
//! A [`Proxy`] stands between clients and one server and forwards bytes. Its faults are set while
//! traffic flows:
//!
//! | fault | meaning |
//! |---|---|
//! | [`cut`](Proxy::cut) | every connection is closed, and nothing that waits passes; new ones are closed at once |
//! | [`sever`](Proxy::sever) | every connection is closed, and nothing that waits passes; new ones are served |
//! | [`refuse`](Proxy::refuse) | open connections are served, new ones are closed at once |
//! | [`hold`](Proxy::hold) | bytes of one direction wait in the proxy, nothing is closed; new connections are accepted and wait too |
//! | [`delay`](Proxy::delay) | bytes of one direction arrive later, in order |
//! | [`narrow`](Proxy::narrow) | so many bytes of one direction arrive in a second, the others wait behind them |
//! | [`drop_reply_to`](Proxy::drop_reply_to) | one request reaches the server, its reply does not reach the client |
//! | [`hold_reply_to`](Proxy::hold_reply_to) | the same, and the connection stays open: the reply comes with [`resume`](Proxy::resume) |
//! | [`park_request`](Proxy::park_request) | the client loses its connection, its request arrives at the server later |
//!
//! A stream protocol cannot lose one message and go on, so "the reply was lost" means here: the
//! request reached the server, no byte of its reply reached the client, and the client's connection
//! broke.
//!
//! A server that tells its clients of others, as a Sentinel does, leads them past the proxy, unless the
//! proxy puts other ports in the place of theirs ([`Proxy::readdress`]).
//!
//! The proxy finds the answer to a request of HTTP/2 by its stream. Otherwise it knows no protocol. It sees chunks: what one read from a socket returned. A small
//! request is one chunk on loopback unless the client pipelines, and then a chunk holds several.
//! Matchers look at one chunk, so they should look for something short and unique, like the key of
//! the test.
//!
//! Faults that wait for a request hand out an [`Event`], so that a test awaits the fault instead of
//! a time.

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
