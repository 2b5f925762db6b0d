//! The times that cases are bound by.

use std::time::Duration;

/// The TTL of cases that are not about loss or expiry.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(10);
/// A TTL at which renewals and re-checks come so seldom that they hide nothing: the longest that
/// ZooKeeper grants by default.
pub(crate) const QUIET_TTL: Duration = Duration::from_secs(40);
/// What a busy machine may add to any bound of time: scheduling, not protocol. It is stated here
/// once.
pub(crate) const NOISE: Duration = Duration::from_millis(1500);
/// The TTL of cases about loss and expiry: as short as it may be so that nothing is lost to
/// [`NOISE`] alone, and half as much again. From the send of a renewal to the deadline there is
/// T - T / 10, and the next is sent after T / 3. A client of ZooKeeper gives a server up that was silent
/// for two fifths of it: these are a third more than [`NOISE`].
pub(crate) const SHORT_TTL: Duration = Duration::from_secs(5);
const _: () = assert!(SHORT_TTL.as_millis() * 17 / 30 >= NOISE.as_millis() * 3 / 2, "as is said above");
const _: () = assert!(SHORT_TTL.as_millis() * 2 / 5 >= NOISE.as_millis() * 4 / 3, "as is said above");
/// What a busy machine and its server may be late by together, where something comes by itself: at the
/// end of a lease, say. It is a part of limits only, which nobody waits out in good order. A lease of
/// [`SHORT_TTL`] has ended within it before a re-check at [`LONG_TTL`] could hide that.
pub(crate) const LATE: Duration = Duration::from_secs(4);
/// What a server may add that tells whole seconds.
pub(crate) const ROUNDED: Duration = Duration::from_secs(1);
/// Anything that is not about time must happen within this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The connect timeout of clients in cases: on a busy machine the default is over while TLS shakes
/// hands, or while a server's JVM warms up. Less than [`PATIENCE`], so that a client says itself why it
/// has not connected.
pub(crate) const CONNECT: Duration = Duration::from_secs(15);
/// The request timeout of clients in cases, at the least: by the default a server that stands still for two
/// seconds fails a request, which most cases take for an answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(4);
/// What is cleaned up must be within this: less than [`LONG_TTL`], so that the end of a lease hides
/// nothing that stayed.
pub(crate) const CLEAN_UP: Duration = Duration::from_secs(8);
