//! Cells: versioned values.
//!
//! A cell is a hash of its value and its version. One script checks the condition (and the holder's
//! node), writes, and publishes on the cell's channel. The server runs no other command during a
//! script, so check and write are one step. A watch (`watch/changes.rs`) is a subscription to that
//! channel, on the client's existing connection. After a reconnect, messages may be lost, so the
//! watch reports a change.
//!
//! *Counts* are changed by the server itself ([`access::change_count`]). The script decides like
//! core's `decide/count/request.rs`, and a test compares both.
//!
//! *Ephemeral cells* are keys that expire. The write sets the TTL, and each round of renewals sets
//! it again, for the cells that this client wrote last ([`leased`]). The nonce of the version shows
//! the last writer, so neither a late renewal nor a late deletion changes a cell that another
//! client has written since.
//!
//! *Listings* ([`walk`](crate::walk)) walk over all keys of the server, like listings of queues.
//!
//! In a Redis Cluster a held write needs its cell and its queue in one slot: the same key, and so the
//! same hash tag.

pub(crate) mod access;
pub(crate) mod leased;
