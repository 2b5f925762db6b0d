//! How long a client may count itself alive, and when it must prove it (`docs/protocol/lease.md`).

use std::time::Duration;

use crate::clock::Moment;
use crate::error::{Error, Result};

/// The shortest TTL that a client may request.
pub const MIN_TTL: Duration = Duration::from_secs(1);
/// The longest TTL that a client may request.
pub const MAX_TTL: Duration = Duration::from_secs(3600);

/// Refuses a TTL outside 1 s to 1 h.
///
/// # Errors
/// `InvalidArgument` naming `ttl`.
pub fn check_ttl(ttl: Duration) -> Result<()> {
    if (MIN_TTL..=MAX_TTL).contains(&ttl) {
        Ok(())
    } else {
        Err(Error::invalid("ttl", format!("{ttl:?} is outside 1 s to 1 h")))
    }
}

/// Returns how much earlier a client gives up than the server: TTL / 10, at least 200 ms. It covers the drift
/// of the client's clock within a TTL and the rounding of server times (LEASE-MARGIN-COVERS-DRIFT).
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 10).max(Duration::from_millis(200))
}

/// Returns the deadline that a proof gives: the send time of the request, plus the TTL, minus the margin
/// (LEASE-DEADLINE-FROM-SEND).
pub fn valid_until(sent: Moment, ttl: Duration) -> Moment {
    sent + ttl.saturating_sub(margin(ttl))
}

/// Returns when to release the node of a hold that its fixed end or a close ended: one margin later, because
/// the holder's last work may still run (LEASE-MARGIN-BEFORE-LEAVE).
pub fn given_back_at(ended: Moment, ttl: Duration) -> Moment {
    ended + margin(ttl)
}

/// Returns when the server has no node of a join without an answer, and will have none. The request may
/// arrive within a request timeout, or a TTL if that is longer: a connection may hold it back as long as the
/// server counts on the client. Its node then lives a TTL.
pub fn join_obsolete_at(now: Moment, request_timeout: Duration, ttl: Duration) -> Moment {
    now + request_timeout.max(ttl) + ttl
}

/// Returns when the server has removed a node whose lease expires at `deadline` by this client's clock. One
/// TTL covers every margin and clock.
pub fn node_obsolete_at(deadline: Moment, ttl: Duration) -> Moment {
    deadline + ttl
}

/// Returns the time between two renewals: a third of the TTL.
pub fn renewal_period(ttl: Duration) -> Duration {
    ttl / 3
}

/// Returns whether an answered renewal of an etcd lease counts, from the terms in its answer and in the
/// answer to a later quorum read (LEASE-RENEWAL-IN-ONE-TERM). A server shows term 0 before it has applied an
/// entry.
pub fn renewal_counts(renewed: u64, confirmed: u64) -> bool {
    renewed != 0 && renewed == confirmed
}

/// Returns when a waiter re-checks: at its next renewal, or at the expiry of the node ahead
/// (QUEUE-LOOK-AT-EXPIRY).
pub fn recheck(next_renewal: Moment, ahead_expires: Moment) -> Moment {
    next_renewal.min(ahead_expires)
}

/// Returns the period of ZooKeeper's proofs of contact (`docs/protocol/lease.md`). It needs a TTL above one
/// and a half ticks.
pub fn contact_period(ttl: Duration, tick: Duration) -> Duration {
    (ttl / 6).max(tick.min(ttl / 3))
}

/// Proofs of contact through a server that does not own the session's timer (ZooKeeper,
/// LEASE-PROOF-BY-EARLIER-WRITE).
///
/// The deadline counts from the send of contact k-1, if contact k was sent at least one period after the
/// answer to contact k-1. Contact 0 is the creation of the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContactProof {
    ttl: Duration,
    period: Duration,
    sent: Moment,
    answered: Moment,
    deadline: Moment,
}

impl ContactProof {
    /// Records contact 0: the session was requested at `sent`, and was created by `answered`.
    pub fn new(sent: Moment, answered: Moment, ttl: Duration, period: Duration) -> Self {
        Self { ttl, period, sent, answered, deadline: valid_until(sent, ttl) }
    }

    /// Returns the minimum time between the answer to a contact and the next contact.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the earliest instant at which a write counts as the next contact.
    pub fn next_send(&self) -> Moment {
        self.answered + self.period
    }

    /// Records a write. Returns the new deadline, or `None` if the write was sent too early to prove
    /// anything.
    pub fn acknowledged(&mut self, sent: Moment, answered: Moment) -> Option<Moment> {
        if sent < self.next_send() {
            return None;
        }
        self.deadline = self.deadline.max(valid_until(self.sent, self.ttl));
        self.sent = sent;
        self.answered = answered;
        Some(self.deadline)
    }

    /// Returns the instant until which the leader certainly counts the session alive.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_margin_is_a_tenth_and_never_under_200_ms() {
        assert_eq!(margin(Duration::from_secs(1)), Duration::from_millis(200));
        assert_eq!(margin(Duration::from_secs(10)), Duration::from_secs(1));
        assert_eq!(valid_until(at(500), Duration::from_secs(10)), at(9_500));
        assert_eq!(
            given_back_at(at(9_500), Duration::from_secs(10)),
            at(10_500),
            "when the server gives it up"
        );
    }

    #[test]
    fn a_ttl_out_of_range_is_refused_by_name() {
        for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(3601)] {
            assert_eq!(check_ttl(ttl).unwrap_err().argument(), Some("ttl"));
        }
    }

    #[test]
    fn the_contact_period_fits_its_bounds() {
        let ms = Duration::from_millis;
        assert_eq!(contact_period(ms(1000), ms(100)), ms(1000) / 6);
        assert_eq!(contact_period(ms(4000), ms(2000)), ms(4000) / 3);
        assert_eq!(contact_period(ms(10_000), ms(2000)), ms(2000));
        for (ttl, tick) in [(1000, 100), (4000, 2000), (10_000, 2000), (40_000, 2000)] {
            let (ttl, period) = (ms(ttl), contact_period(ms(ttl), ms(tick)));
            assert!(2 * period < ttl - margin(ttl), "a healthy lease would be lost at TTL {ttl:?}");
        }
    }

    #[test]
    fn contact_proves_the_previous_contact_only_after_an_interval() {
        let (ttl, period) = (Duration::from_secs(10), Duration::from_secs(2));
        let mut proof = ContactProof::new(at(0), at(100), ttl, period);
        assert_eq!(proof.deadline(), at(9_000));
        assert_eq!(proof.acknowledged(at(1_000), at(1_100)), None, "closer than the ping interval");
        assert_eq!(proof.acknowledged(at(2_100), at(2_200)), Some(at(9_000)));
        assert_eq!(proof.acknowledged(at(4_200), at(4_300)), Some(at(11_100)));
    }
}
