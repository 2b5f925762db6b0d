use serde::{Deserialize, Serialize};

use crate::contracts::StoredLimit;
use crate::error::{Error, ErrorKind};

/// The admission rule and the weight of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Admitted alone: a mutex, or the writer of a read/write lock.
    Exclusive,
    /// Admitted with other shared claims: a reader, after the nearest earlier exclusive claim.
    Shared,
    /// This number of permits of the queue's limit, all or none, in order.
    Permits(u32),
}

impl Claim {
    /// Returns the error of a waiter that the stored limit can no longer admit.
    pub fn outweighs(self, stored: &StoredLimit) -> Error {
        let why = match stored {
            StoredLimit::Absent => {
                "the stored limit was removed during the wait: store one with set_limit, and acquire again"
                    .to_owned()
            }
            StoredLimit::Permits(limit) => {
                let weight = self.weight();
                format!("the weight {weight} is above the limit, which was set to {limit} during the wait")
            }
            StoredLimit::Foreign(_) => format!("during the wait, the stored limit was replaced: {stored}"),
        };
        Error::new(ErrorKind::Conflict, why)
    }

    /// Returns the number of permits that the claim takes.
    pub fn weight(self) -> u32 {
        match self {
            Claim::Exclusive | Claim::Shared => 1,
            Claim::Permits(weight) => weight,
        }
    }
}

/// Returns whether `next` fits together with the claims that are admitted before it. `limit` applies to
/// permits only.
pub fn fits(admitted: impl IntoIterator<Item = Claim>, next: Claim, limit: u32) -> bool {
    let mut admitted = admitted.into_iter();
    match next {
        Claim::Exclusive => admitted.next().is_none(),
        Claim::Shared => admitted.all(|claim| claim != Claim::Exclusive),
        Claim::Permits(weight) => {
            let taken: u64 = admitted.map(|claim| u64::from(claim.weight())).sum();
            taken + u64::from(weight) <= u64::from(limit)
        }
    }
}

/// Returns how many of a queue's claims are admitted. They are a prefix, since no claim overtakes. The first
/// `already` nodes stay admitted, even if the limit has fallen since.
pub fn admitted_prefix(claims: &[Claim], already: usize, limit: u32) -> usize {
    let mut admitted = already.min(claims.len());
    while admitted < claims.len() && fits(claims[..admitted].iter().copied(), claims[admitted], limit) {
        admitted += 1;
    }
    admitted
}

#[cfg(test)]
mod tests {
    use super::Claim::{Exclusive as W, Permits as P, Shared as R};
    use super::*;

    #[test]
    fn table_of_admitted_prefixes() {
        for (claims, already, limit, expected) in [
            (&[][..], 0, 0, 0),
            (&[W, W], 0, 0, 1),
            (&[R, R, W, R], 0, 0, 2),
            (&[W, R, R], 0, 0, 1),
            (&[R, W], 0, 0, 1),
            (&[P(1), P(1), P(1)], 0, 2, 2),
            (&[P(1), P(2), P(1)], 0, 2, 1),
            (&[P(2), P(1), P(1)], 2, 2, 2),
            (&[P(1), P(1)], 1, 2, 2),
        ] {
            assert_eq!(admitted_prefix(claims, already, limit), expected, "{claims:?} {already} {limit}");
        }
    }
}
