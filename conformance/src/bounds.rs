//! The time bounds of cases.

use std::time::Duration;

/// The TTL of cases that are not about loss or expiry.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(10);
/// A TTL with such rare renewals and re-checks that they hide no fault: the longest that ZooKeeper grants by default.
pub(crate) const QUIET_TTL: Duration = Duration::from_secs(40);
/// The time that a busy machine may add to any bound, by its scheduling.
pub(crate) const NOISE: Duration = Duration::from_millis(1500);
/// The TTL of cases about loss and expiry: 1.5 times the shortest TTL that [`NOISE`] alone cannot end. The deadline is T - T / 10
/// after the send of a renewal, and the next renewal is sent after T / 3. A client of ZooKeeper gives up a server after two
/// fifths of the TTL without an answer, which is a third more than [`NOISE`].
pub(crate) const SHORT_TTL: Duration = Duration::from_secs(5);
const _: () = assert!(
    SHORT_TTL.as_millis() * 17 / 30 >= NOISE.as_millis() * 3 / 2,
    "the documentation of SHORT_TTL must hold"
);
const _: () = assert!(
    SHORT_TTL.as_millis() * 2 / 5 >= NOISE.as_millis() * 4 / 3,
    "the documentation of SHORT_TTL must hold"
);
/// The time by which a busy machine and its server may be late together, for events without a request, such as the end of a
/// lease. It is only a part of limits: a case that passes does not wait for it. A lease of [`SHORT_TTL`] ends within it
/// before a re-check at [`LONG_TTL`] could hide a missing event.
pub(crate) const LATE: Duration = Duration::from_secs(4);
/// The error of a server that reports whole seconds.
pub(crate) const ROUNDED: Duration = Duration::from_secs(1);
/// The limit for everything without another bound.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The connect timeout of clients in cases. On a busy machine, a TLS handshake or the warm-up of a server's JVM takes longer than
/// the default. It is shorter than [`PATIENCE`], so that the client reports why it has not connected.
pub(crate) const CONNECT: Duration = Duration::from_secs(15);
/// The shortest request timeout of clients in cases. With the default, a server that pauses for two seconds fails a request, and
/// most cases expect an answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(4);
/// The limit for a clean-up. It is shorter than [`LONG_TTL`], so that the end of a lease does not hide leftovers.
pub(crate) const CLEAN_UP: Duration = Duration::from_secs(8);
