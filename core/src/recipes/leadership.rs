use std::sync::Arc;

use crate::contracts::QueueEntry;
use crate::error::Result;
use crate::token::Token;

/// The current leader of an [`Election`](super::Election).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The term: the leader's fencing token.
    pub term: Token,
    /// The leader's data.
    pub data: Arc<[u8]>,
}

impl Leader {
    /// A head that still waits is not the leader yet.
    pub(super) fn of(head: &[QueueEntry], token: impl Fn(u64) -> Result<Token>) -> Result<Option<Self>> {
        let leader = head.first().filter(|head| head.admitted);
        let leading = |leader: &QueueEntry| {
            let term = token(leader.sequence)?;
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

    fn head(sequence: u64, admitted: bool) -> QueueEntry {
        let (claim, label, data) = (Claim::Exclusive, String::new(), Arc::from(*b"it"));
        QueueEntry { sequence, claim, admitted, label, age: None, lease_left: None, data }
    }

    fn token(sequence: u64) -> Result<Token> {
        Token::new(2, sequence)
    }

    #[test]
    fn only_an_admitted_head_leads() {
        assert_eq!(Leader::of(&[], token).expect("a queue"), None);
        assert_eq!(Leader::of(&[head(7, false)], token).expect("a queue"), None);
        let leading =
            Leader::of(&[head(7, true), head(9, false)], token).expect("a queue").expect("it leads");
        assert_eq!((leading.term, &*leading.data), (token(7).expect("a token"), &b"it"[..]));
        let error = Leader::of(&[head(u64::MAX, true)], token).expect_err("no term");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
}
