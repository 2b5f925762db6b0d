//! A TCP proxy with the faults of networks: it cuts connections, holds or delays bytes, and loses a reply.
//!
//! A [`Proxy`] forwards bytes between clients and one server. Faults are set while it runs:
//!
//! | fault | meaning |
//! |---|---|
//! | [`cut`](Proxy::cut) | all connections are closed, and waiting bytes are lost; new connections are closed at once |
//! | [`sever`](Proxy::sever) | all connections are closed, and waiting bytes are lost; new connections are served |
//! | [`refuse`](Proxy::refuse) | open connections are served; new connections are closed at once |
//! | [`hold`](Proxy::hold) | bytes of one direction wait in the proxy; new connections are accepted and wait too |
//! | [`delay`](Proxy::delay) | bytes of one direction arrive later, in order |
//! | [`narrow`](Proxy::narrow) | the bytes of one direction are limited to a rate; other bytes wait |
//! | [`drop_reply_to`](Proxy::drop_reply_to) | one request reaches the server, but its reply does not reach the client |
//! | [`hold_reply_to`](Proxy::hold_reply_to) | the same, and the connection stays open: the reply comes with [`resume`](Proxy::resume) |
//! | [`park_request`](Proxy::park_request) | the client loses its connection, and its request reaches the server later |
//!
//! A stream protocol cannot lose one message and continue. So a lost reply means here: the request reached the server, no byte of
//! its reply reached the client, and the client's connection broke.
//!
//! A server that names other servers to its clients, such as a Sentinel, makes them connect without the proxy, unless the proxy
//! replaces the ports ([`Proxy::readdress`]).
//!
//! The proxy finds the answer to a request of HTTP/2 by its stream. It knows no other protocol. It sees chunks: the bytes of one
//! read from a socket. On loopback a small request is one chunk; if the client pipelines, a chunk contains several requests.
//! A matcher sees one chunk, so it should look for a short, unique text, such as the key of the test.
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
