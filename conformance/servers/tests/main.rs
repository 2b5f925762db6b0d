//! Tests of the servers for tests, and of the proxy.
//!
//! `ensemble` needs more servers: `./test --faults` runs it.

mod echo;
mod ensemble;
mod proxy;
mod servers;
