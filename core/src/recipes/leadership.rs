//! Who leads, as an election's queue shows it.

use std::sync::Arc;

use crate::contracts::Entry;
use crate::error::Result;
use crate::token::Token;

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leading {
    /// The term: the leader's fencing token.
    pub term: Token,
    /// What the leader says of itself.
    pub data: Arc<[u8]>,
}

impl Leading {
    /// The leader, by the head of its election's queue. A head that only waits leads not yet.
    ///
    /// # Errors
    /// `Misconfigured` when its sequence number does not fit a term.
    pub(super) fn of(head: &[Entry]) -> Result<Option<Self>> {
        let leader = head.first().filter(|head| head.admitted);
        let leading = |leader: &Entry| {
            let term = Token::new(0, leader.sequence)?;
            Ok(Self { term, data: Arc::clone(&leader.data) })
        };
        leader.map(leading).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Claim;
    use crate::error::ErrorKind;

    fn head(sequence: u64, admitted: bool) -> Entry {
        let (claim, label, data) = (Claim::Exclusive, String::new(), Arc::from(*b"it"));
        Entry { sequence, claim, admitted, label, age: None, lease_left: None, data }
    }

    #[test]
    fn only_an_admitted_head_leads() {
        assert_eq!(Leading::of(&[]).expect("a queue"), None);
        assert_eq!(Leading::of(&[head(7, false)]).expect("a queue"), None);
        let leading = Leading::of(&[head(7, true), head(9, false)]).expect("a queue").expect("it leads");
        assert_eq!((leading.term.sequence(), &*leading.data), (7, &b"it"[..]));
        let error = Leading::of(&[head(u64::MAX, true)]).expect_err("no term");
        assert_eq!(error.kind(), &ErrorKind::Misconfigured, "{error}");
    }
}
