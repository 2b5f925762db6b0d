use crate::clock::Moment;

/// A lease is renewed three times in its TTL. Further renewals share the last slot.
#[derive(Debug)]
pub(super) struct Unanswered {
    first: Renewal,
    // Boxed: few leases ever wait for two answers, and on some servers each node has a lease.
    others: Option<Box<[Renewal; 2]>>,
}

type Renewal = (Moment, Moment);

const ANSWERED: Renewal = (Moment::NEVER, Moment::NEVER);

impl Default for Unanswered {
    fn default() -> Self {
        Self { first: ANSWERED, others: None }
    }
}

impl Unanswered {
    pub(super) fn add(&mut self, sent: Moment, due: Moment) {
        if self.first != ANSWERED {
            self.others.get_or_insert_with(|| Box::new([ANSWERED; 2]));
        }
        // A free slot is the latest of all.
        let slot = self.slots_mut().max_by_key(|slot| slot.0).expect("one at least");
        *slot = (sent, due.min(slot.1));
    }

    /// An answer settles earlier requests too.
    pub(super) fn answered(&mut self, sent: Moment) {
        for slot in self.slots_mut().filter(|slot| slot.0 <= sent) {
            *slot = ANSWERED;
        }
        self.others.take_if(|others| **others == [ANSWERED; 2]);
    }

    pub(super) fn due(&self) -> Moment {
        let others = self.others.iter().flat_map(|others| others.iter());
        others.map(|slot| slot.1).fold(self.first.1, Moment::min)
    }

    fn slots_mut(&mut self) -> impl Iterator<Item = &mut Renewal> {
        let others = self.others.iter_mut().flat_map(|others| others.iter_mut());
        std::iter::once(&mut self.first).chain(others)
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
