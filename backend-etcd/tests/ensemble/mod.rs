//! A cluster of three servers.

mod chaos;
mod connect;
mod failover;
