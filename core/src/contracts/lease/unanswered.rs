//! The renewals that have no answer yet.

use crate::clock::Moment;

/// Renewals without an answer: when each was sent, and when it is due. A lease is renewed three
/// times in its TTL; further ones share the last slot.
#[derive(Debug)]
pub(super) struct Unanswered([(Moment, Moment); 3]);

const ANSWERED: (Moment, Moment) = (Moment::NEVER, Moment::NEVER);

impl Default for Unanswered {
    fn default() -> Self {
        Self([ANSWERED; 3])
    }
}

impl Unanswered {
    pub(super) fn add(&mut self, sent: Moment, due: Moment) {
        let free = self.0.iter().position(|&slot| slot == ANSWERED);
        let (slot, before) = match free {
            Some(free) => (&mut self.0[free], Moment::NEVER),
            None => {
                let last = self.0.iter_mut().max_by_key(|slot| slot.0).expect("three");
                let before = last.1;
                (last, before)
            }
        };
        *slot = (sent, due.min(before));
    }

    /// A request sent at `sent` was answered: it also settles those sent before it.
    pub(super) fn answered(&mut self, sent: Moment) {
        for slot in self.0.iter_mut().filter(|slot| slot.0 <= sent) {
            *slot = ANSWERED;
        }
    }

    /// When the oldest is due.
    pub(super) fn due(&self) -> Moment {
        self.0.iter().map(|slot| slot.1).min().expect("three")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_requests_than_are_counted_are_due_with_the_last() {
        let (mut unanswered, at) = (Unanswered::default(), Moment::from_nanos);
        for sent in 1..=5 {
            unanswered.add(at(sent), at(10 * sent));
        }
        assert_eq!(unanswered.due(), at(10));
        unanswered.answered(at(2));
        assert_eq!(unanswered.due(), at(30));
        unanswered.answered(at(4));
        assert_eq!(unanswered.due(), at(30), "the fifth is out, and counts from the third");
        unanswered.answered(at(5));
        assert_eq!(unanswered.due(), Moment::NEVER);
    }
}
