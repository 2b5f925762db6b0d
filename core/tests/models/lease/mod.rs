//! The model of the lease: how long a client may count itself alive.

mod ends;
mod nodes;
mod proof;
mod rules;
mod term;
