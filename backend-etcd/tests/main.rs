//! Tests of this backend on real etcd servers, beside what the suite checks.
//!
//! `faults` and `ensemble` need more time or more servers: `./test --faults` runs them.

mod common;

mod cell_watch;
mod cells;
mod changes;
mod claims;
mod connect;
mod credentials;
mod election;
mod ensemble;
mod faults;
mod foreign;
mod idle_cells;
mod incarnation;
mod lease;
mod limits;
mod mutex;
mod observed;
mod outages;
mod rechecks;
mod release;
mod release_notice;
mod surroundings;
