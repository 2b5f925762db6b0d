//! Tests on a master that Sentinels watch.

mod failover;
mod master;
mod tls;
