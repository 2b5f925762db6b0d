//! Models of the time during which a client may count itself alive (the LEASE- rules).

mod ends;
mod nodes;
mod proof;
mod rules;
mod term;
