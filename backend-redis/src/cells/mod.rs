//! Cells: versioned values.
//!
//! A cell is a hash of its value and its version. One script checks the condition (and the holder's node),
//! writes, and publishes on the cell's channel. The script of a count ([`access::change_count`]) decides like
//! core's `decide/count/request.rs`, and a test compares both.
//!
//! An ephemeral cell is a key that expires, renewed by its last writer ([`leased`]). The nonce of the version
//! names the last writer, so no late renewal or deletion changes a later write of another client.
//!
//! In a Redis Cluster a held write needs cell and queue in one slot: the same key, and so the same hash tag.

pub(crate) mod access;
pub(crate) mod leased;
