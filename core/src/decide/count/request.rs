//! A change that the server decides in one step.
//!
//! The server decides as [`Count::decide`] does. A request expects no version, so requests of other writers
//! do not refuse it. `docs/protocol/cells.md` shows why a late request is not applied again. A request
//! that changes nothing leaves a record of the next number if another request of its operation may still
//! arrive (COUNT-REFUSED-FOR-GOOD).

use super::{Change, Changed, Count, Operation, Record, WRITERS};

/// A request to change a count. All requests of an operation have the same first three fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountRequest {
    /// The change.
    pub change: Change,
    /// The operation. Its writer gives the next number to no other operation.
    pub operation: Operation,
    /// The initial number of the count, if its users agree on one.
    pub initial: Option<u32>,
    /// A lower bound of the count's writes when the operation was first sent, if its writer knew one.
    pub since: Option<u64>,
    /// Whether another request of this operation may still arrive.
    pub in_doubt: bool,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The answer.
    pub outcome: CountOutcome,
    /// The number of writes of the count now.
    pub writes: u64,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountOutcome {
    /// The operation was applied, by this or an earlier request, with this result.
    Applied(i64),
    /// The operation was not applied and never will be: the sum does not fit, or the value is not the
    /// required one.
    Refused,
    /// Nothing was changed: the record of the operation may have been pushed out.
    Untold,
}

impl CountRequest {
    /// Returns the highest number of writes at which a missing record proves that the operation was not
    /// applied.
    pub fn until(&self) -> Option<u64> {
        self.since.map(|since| since.saturating_add(WRITERS as u64))
    }

    /// Returns the operation of the record that refuses other requests of this operation.
    pub fn fence(&self) -> Operation {
        Operation { number: self.operation.number.saturating_add(1), ..self.operation }
    }
}

impl Count {
    /// Returns the result of a request, and the count to write for it.
    pub fn decide(&self, request: &CountRequest) -> (Decided, Option<Count>) {
        let kept = |outcome| (Decided { outcome, writes: self.writes }, None);
        let written = |outcome, count: Count| (Decided { outcome, writes: count.writes }, Some(count));
        let asked = request.operation;
        match self.last.iter().find(|record| record.operation.writer == asked.writer) {
            Some(Record { operation, result }) if operation.number == asked.number => {
                return kept(CountOutcome::Applied(*result));
            }
            Some(Record { operation, .. }) if operation.number > asked.number => {
                return kept(CountOutcome::Refused);
            }
            Some(_) => {}
            None if self.last.len() < WRITERS => {}
            None if request.until().is_some_and(|until| self.writes <= until) => {}
            None => return kept(CountOutcome::Untold),
        }
        match self.changed(request.change, asked) {
            Changed::To(next) => written(CountOutcome::Applied(next.result()), next),
            Changed::Not | Changed::Overflow if request.in_doubt => {
                written(CountOutcome::Refused, self.written(self.value, request.fence(), self.value))
            }
            Changed::Not | Changed::Overflow => kept(CountOutcome::Refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn request(writer: u64, number: u64, change: Change) -> CountRequest {
        let operation = Operation { writer, number };
        CountRequest { change, operation, initial: None, since: Some(0), in_doubt: false }
    }

    fn sent(count: &mut Count, request: CountRequest) -> CountOutcome {
        let (decided, next) = count.decide(&request);
        *count = next.unwrap_or_else(|| count.clone());
        assert_eq!(decided.writes, count.writes());
        decided.outcome
    }

    #[test]
    fn a_request_that_comes_again_changes_nothing() {
        let mut count = Count::default();
        let add = request(1, 2, Change::Add(5));
        assert_eq!(sent(&mut count, add), CountOutcome::Applied(5));
        assert_eq!(sent(&mut count, request(2, 2, Change::Add(1))), CountOutcome::Applied(6));
        assert_eq!(sent(&mut count, add), CountOutcome::Applied(5), "with the result of then");
        assert_eq!(sent(&mut count, request(1, 4, Change::Add(1))), CountOutcome::Applied(7));
        assert_eq!(sent(&mut count, add), CountOutcome::Refused, "its writer has begun another");
        assert_eq!(count.value(), 7);
    }

    #[test]
    fn refusal_of_a_request_in_doubt_is_final() {
        let mut count = Count::default();
        let late = request(1, 2, Change::Swap { from: 3, to: 9 });
        assert_eq!(sent(&mut count, CountRequest { in_doubt: true, ..late }), CountOutcome::Refused);
        assert_eq!((count.value(), count.writes()), (0, 1), "the record is written");
        assert_eq!(sent(&mut count, request(2, 2, Change::Add(3))), CountOutcome::Applied(3));
        assert_eq!(sent(&mut count, late), CountOutcome::Refused, "although the value is the required one");
        let writes = count.writes();
        assert_eq!(sent(&mut count, request(3, 2, Change::Add(i64::MAX))), CountOutcome::Refused);
        assert_eq!(count.writes(), writes, "the only request leaves no trace of a refusal");
    }

    #[test]
    fn a_request_whose_record_may_have_been_pushed_out_is_not_applied() {
        let mut count = Count::default();
        let first = request(0, 2, Change::Add(1));
        for writer in 0..WRITERS as u64 {
            sent(&mut count, request(writer, 2, Change::Add(1)));
        }
        let knows_nothing = CountRequest { since: None, ..request(99, 2, Change::Add(1)) };
        assert_eq!(sent(&mut count, knows_nothing), CountOutcome::Untold);
        let knows = CountRequest { since: Some(count.writes()), ..knows_nothing };
        assert_eq!(sent(&mut count, knows), CountOutcome::Applied(49));
        assert_eq!(sent(&mut count, first), CountOutcome::Untold, "it was applied and pushed out");
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Sends { writer: usize, heard: bool },
        Late { which: usize },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let sends =
            (0_usize..60, 0_u8..10).prop_map(|(writer, lost)| Step::Sends { writer, heard: lost > 1 });
        let late = any::<usize>().prop_map(|which| Step::Late { which });
        proptest::collection::vec(prop_oneof![4 => sends, 1 => late], 0..400)
    }

    #[derive(Clone, Debug, Default)]
    struct Writer {
        number: u64,
        since: Option<u64>,
        doing: Option<CountRequest>,
    }

    impl Writer {
        fn sends(&mut self, writer: u64) -> CountRequest {
            let since = self.since;
            *self.doing.get_or_insert_with(|| {
                self.number += 2;
                let change = match self.number % 6 {
                    0 => Change::Down(1),
                    2 => Change::Swap { from: 0, to: 1 },
                    _ => Change::Add(1),
                };
                CountRequest { since, ..request(writer, self.number, change) }
            })
        }
    }

    proptest! {
        /// Sixty writers send operations, and any request may arrive again later.
        #[test]
        fn operation_is_applied_once_although_requests_repeat(steps in steps()) {
            let (mut count, mut writers) = (Count::default(), vec![Writer::default(); 60]);
            let mut requests: Vec<CountRequest> = Vec::new();
            let (mut applied, mut refused) = (BTreeSet::new(), BTreeSet::new());
            for step in steps {
                let (request, heard) = match step {
                    Step::Late { .. } if requests.is_empty() => continue,
                    Step::Late { which } => (requests[which % requests.len()], false),
                    Step::Sends { writer, heard } => (writers[writer].sends(writer as u64), heard),
                };
                requests.push(request);
                let its = (request.operation.writer, request.operation.number);
                let (decided, next) = count.decide(&request);
                if next.is_some() && matches!(decided.outcome, CountOutcome::Applied(_)) {
                    prop_assert!(applied.insert(its) && !refused.contains(&its), "{request:?}");
                }
                count = next.unwrap_or(count);
                let writer = &mut writers[usize::try_from(its.0).expect("few")];
                match decided.outcome {
                    _ if matches!(step, Step::Late { .. }) => continue,
                    _ if !heard => writer.doing = Some(CountRequest { in_doubt: true, ..request }),
                    CountOutcome::Untold if !request.in_doubt => {
                        writer.doing = Some(CountRequest { since: Some(decided.writes), ..request });
                    }
                    CountOutcome::Untold => writer.doing = None,
                    CountOutcome::Applied(_) => {
                        prop_assert!(applied.contains(&its), "{request:?}");
                        writer.doing = None;
                    }
                    CountOutcome::Refused => {
                        prop_assert!(!applied.contains(&its), "{request:?}");
                        refused.insert(its);
                        writer.doing = None;
                    }
                }
                if heard {
                    writer.since = Some(decided.writes);
                }
            }
        }
    }
}
