//! `cluster` and `sentinel` need more servers: `./test --faults` runs them.

mod common;
mod terminal;

#[cfg(all(feature = "compare", feature = "tls"))]
mod cluster;
#[cfg(feature = "compare")]
mod compare;
#[cfg(all(feature = "compare", feature = "tls"))]
mod compare_given;
mod doctor;
mod inspect;
mod lock;
mod migrate;
#[cfg(all(feature = "compare", feature = "tls"))]
mod sentinel;
