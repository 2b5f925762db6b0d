//! `ensemble` needs more servers: `./test --faults` runs it.

mod echo;
mod ensemble;
mod proxy;
mod servers;
