//! Latchwork on Redis and Valkey.
//!
//! # The protocol, and why it is safe
//! A queue is a sorted set of nodes by sequence number, beside one by expiry and a hash with each node's data. Every
//! operation is one Lua script, which the server runs alone, and every script works in one order: drop all that has
//! expired, wherever it stands; act; admit by the rule over the whole queue, never by looking at the holders
//! alone. So nobody overtakes a waiter, and a crash in mid-queue delays nobody behind it.
//!
//! *Admission.* Exclusive and shared claims are admitted by their place (the first; no writer before me). Permits are
//! stored (the sum that is taken, and the frontier up to which nodes are admitted), since a limit that is lowered
//! revokes nobody. The admitted are always a prefix of the queue.
//!
//! *Folded.* While nobody contends, an exclusive or read/write queue is one string (`one`) with its only node, or with
//! its last token: an acquire and a release read it and write it, and that is all. A second node, a tombstone or an
//! operator unfolds it into the sets, and whoever leaves it empty folds it again. The rules are the same in both forms
//! (`scripts/one.lua`).
//!
//! *Leases.* Each node expires by itself, so each has a deadline of its own: the moment at which the join or renewal
//! was sent whose reply is in, plus the TTL, less the margin. One reply about one node never moves the
//! deadline of another. Nodes are renewed in batches every third of the TTL, and the answer is also each waiter's
//! re-check: held, waiting (and until when what it waits for may expire), or gone.
//!
//! *Hand-off.* The script of a leave admits the next and publishes `id sequence.secret` to the inbox of its client. The
//! message moves no deadline and counts only for the attempt that waits, so that a late or repeated one does
//! no harm; a lost one is healed by the re-check. The winner sends nothing. Nor does it have to ask whether the message is
//! true: the secret is a random number that its join has stored with the node, so that who names it can read the queue's
//! keys. (Who can only publish to the inbox, and has seen ids and sequence numbers, admits nobody.) With the sequence negated
//! the message only says to look again, which needs no secret: the node is renewed at once, and so finds that it was revoked,
//! or does not fit a new limit.
//!
//! *Foreign data.* What is not in all three parts of a queue, or has a number that none of ours can have, is no node, and is
//! removed. Where it is found the queue is read once, a thousand entries a call, and nobody is admitted before the end of
//! it. A last number from 2^53 on is refused to a join before anything is written, and named by its key.
//!
//! *Tokens* are sequence numbers: the server's microseconds, or one more than the last, whichever is higher. The
//! last is kept for 24 hours after a queue's last use (`remember` in the URL or `Config`). Order is not kept where that is gone and the server's clock is behind it:
//! when a queue lay idle for longer and the clock is set back by more than that idle time, or at all after an operator or an
//! eviction has removed the key, or a failover or a restart has forgotten the last writes.
//!
//! *What Redis cannot give.* A failover of an asynchronous replica may forget a lock, and a server that evicts
//! keys throws locks away: see [`Capabilities`](latchwork_core::Capabilities). The fencing token is the answer,
//! as long as the new master's clock is not behind the old one's by more than the failover took, and no clock is set back.
//!
//! # Names on the server
//! `<namespace>:<kind>:{<key>}:<part>` with the parts `seq exp node meta`, or `one` in place of these four (folded; not
//! of semaphores), `writers` (read/write locks), `limit` (semaphores) and `left` (tombstones), and the channel
//! `<namespace>:inbox:<client id>`. An exact address has no namespace: `<kind>:{<name>}:<part>`; a name with a brace is
//! refused. To remove a node by hand: `DEL <…>:one`, or where that key is not, `ZREM <…>:seq <node id>`; its owner
//! hears `Revoked` at its next renewal, and the next one is admitted. (One that is revoked by this library hears it at
//! once.)
//!
//! # What the server must allow
//! Redis 6.2 or newer (tested: 7.0), or Valkey (expected). This ACL is enough:
//! `+@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info` on `~<namespace>:* &<namespace>:*`.

mod backend;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod client;
mod clock_steps;
mod config;
#[cfg(test)]
mod differential;
mod driver;
mod error;
#[cfg(test)]
mod fuzz;
mod give_back;
mod inbox;
mod info;
mod layout;
mod lease;
mod nodes;
mod nudge;
mod probe;
mod scripts;

pub use backend::RedisBackend;
pub use config::{RedisConnector, connector};
