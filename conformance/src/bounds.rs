use std::time::Duration;

/// For cases that are not about loss or expiry.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(10);
/// ZooKeeper's longest default TTL: renewals and re-checks are too rare to hide a fault.
pub(crate) const QUIET_TTL: Duration = Duration::from_secs(40);
/// What the scheduling of a busy machine may add to any bound.
pub(crate) const NOISE: Duration = Duration::from_millis(1500);
/// For cases about loss and expiry: at least 1.5 times the shortest TTL that [`NOISE`] cannot end. The
/// deadline is T - T / 10 after a renewal's send, the next renewal comes after T / 3. ZooKeeper clients give
/// up a silent server after two fifths of the TTL, a third more than [`NOISE`].
pub(crate) const SHORT_TTL: Duration = Duration::from_secs(5);
const _: () = assert!(
    SHORT_TTL.as_millis() * 17 / 30 >= NOISE.as_millis() * 3 / 2,
    "the documentation of SHORT_TTL must hold"
);
const _: () = assert!(
    SHORT_TTL.as_millis() * 2 / 5 >= NOISE.as_millis() * 4 / 3,
    "the documentation of SHORT_TTL must hold"
);
/// For events without a request, such as the end of a lease, on a busy machine. A lease of [`SHORT_TTL`] ends
/// within it, before a re-check at [`LONG_TTL`] could hide a missing event.
pub(crate) const LATE: Duration = Duration::from_secs(4);
/// A server may report whole seconds.
pub(crate) const ROUNDED: Duration = Duration::from_secs(1);
/// For everything without another bound.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// For a TLS handshake or a JVM's warm-up on a busy machine. Below [`PATIENCE`], so that the client reports the reason.
pub(crate) const CONNECT: Duration = Duration::from_secs(15);
/// A server that pauses for two seconds must not fail a request.
pub(crate) const ANSWER: Duration = Duration::from_secs(4);
/// Below [`LONG_TTL`]: the end of a lease must not hide leftovers.
pub(crate) const CLEAN_UP: Duration = Duration::from_secs(8);
