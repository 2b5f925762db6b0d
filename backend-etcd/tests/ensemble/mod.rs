//! Tests on a cluster of three servers.

mod chaos;
mod connect;
mod failover;
