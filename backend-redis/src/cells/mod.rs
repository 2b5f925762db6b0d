//! Cells: versioned values.
//!
//! A cell is a hash of its value and its version. One script checks the condition (and the holder's
//! node), writes, and publishes on the cell's own channel. The server runs a script alone, so nothing
//! comes between check and write. A watch (`watch/changes.rs`) is a subscription to that channel, on the
//! connection that the client has anyway; another connection means that messages may be lost, so it
//! answers.
//!
//! *Counts* are changed by the server itself ([`access::change_count`]): the script decides as core's
//! `decide/count/request.rs`, and a test holds them equal.
//!
//! *Ephemeral cells* are keys that expire: the write sets the TTL, and each round of renewals sets it
//! anew, for the cells whose last write was this client's ([`leased`]). What the nonce of the version
//! shows, so neither a late renewal nor a late deletion touches what another client has written since.
//!
//! *Listings* ([`walk`](crate::walk)) walk over all keys of the server, as those of queues do.
//!
//! In a Redis Cluster a held write needs its cell and its queue in one slot: the same key, and so the
//! same hash tag.

pub(crate) mod access;
pub(crate) mod leased;
