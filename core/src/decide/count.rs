//! A number in a cell that each operation changes at most once (the COUNT- rules; `docs/protocol/cells.md`).
//!
//! A change is a compare-and-set of the whole cell, or the server makes it in one step ([`request`]). The
//! count has, for each of its last [`WRITERS`] writers, the number and result of the writer's last operation.
//! The record shows whether a request without an answer was carried out (COUNT-SAYS-UNKNOWN).
//!
//! A deletion of the cell deletes all that was applied to it, so an operation without a record in the new
//! count is applied there. An idle cell ends at least two TTLs after its last change, and an operation sends
//! its requests within one TTL.

mod pace;
pub mod request;
mod sums;
mod text;

pub use pace::{Others, Pace};
pub use sums::shares;
pub use text::{NotACount, NotThisCount};

/// The number of writers that a count remembers.
pub const WRITERS: usize = 48;

/// An operation of a writer. A writer's operations have rising numbers, and each begins after the end of the
/// previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// A random number, one for each writer.
    pub writer: u64,
    /// The number of the operation, for its writer.
    pub number: u64,
}

/// The change of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a number.
    Add(i64),
    /// Sets it to `to` if it is `from`.
    Swap {
        /// The required value.
        from: i64,
        /// The new value.
        to: i64,
    },
    /// Subtracts ones, down to zero. The result has no such bound, so it shows how many ones were subtracted.
    Down(u32),
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The count to write, with the operation's [result](Count::result).
    To(Count),
    /// The change writes nothing.
    Not,
    /// The sum does not fit.
    Overflow,
}

/// The outcome of an operation, as the records show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was applied, with this result.
    Applied(i64),
    /// It was not applied.
    NotApplied,
    /// Unknown: its record may have been pushed out.
    Nothing,
}

/// A number, the number of its writes, and the records of its last writers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    value: i64,
    writes: u64,
    // Only if its users agree on one (a latch).
    initial: Option<u32>,
    // The latest first, one for each writer.
    last: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    operation: Operation,
    result: i64,
}

impl Count {
    /// Creates a count with an initial number that all its users agree on.
    pub fn beginning_with(initial: u32) -> Self {
        Self { value: i64::from(initial), initial: Some(initial), ..Self::default() }
    }

    /// Returns the number.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// Returns the result of the last operation, or the value without one.
    pub fn result(&self) -> i64 {
        self.last.first().map_or(self.value, |record| record.result)
    }

    /// Returns the initial number, if its users agree on one.
    pub fn initial(&self) -> Option<u32> {
        self.initial
    }

    /// Returns the number of writes.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns the count after this operation.
    pub fn changed(&self, change: Change, operation: Operation) -> Changed {
        let result = match change {
            Change::Add(number) => match self.value.checked_add(number) {
                Some(sum) => sum,
                None => return Changed::Overflow,
            },
            Change::Swap { from, to } if self.value == from => to,
            Change::Down(ones) if self.value > 0 => self.value - i64::from(ones),
            Change::Swap { .. } | Change::Down(_) => return Changed::Not,
        };
        let value = if matches!(change, Change::Down(_)) { result.max(0) } else { result };
        Changed::To(self.written(value, operation, result))
    }

    fn written(&self, value: i64, operation: Operation, result: i64) -> Self {
        let others = self.last.iter().filter(|record| record.operation.writer != operation.writer);
        let own = Record { operation, result };
        let last = std::iter::once(own).chain(others.copied()).take(WRITERS).collect();
        Self { value, writes: self.writes.saturating_add(1), initial: self.initial, last }
    }

    /// Returns what writers other than this one did since an earlier read.
    pub fn others_since(&self, before: &Self, writer: u64) -> Others {
        let is_new = |record: &&Record| record.operation.writer != writer && !before.last.contains(record);
        let writers = self.last.iter().filter(is_new).count();
        Others { writers, writes: self.writes.saturating_sub(before.writes) }
    }

    /// Returns the outcome of an operation that was first sent when the count had `since` writes.
    pub fn told(&self, operation: Operation, since: u64) -> Told {
        match self.last.iter().find(|record| record.operation.writer == operation.writer) {
            Some(record) if record.operation.number == operation.number => Told::Applied(record.result),
            Some(_) => Told::NotApplied,
            None if self.last.len() < WRITERS => Told::NotApplied,
            None if self.writes.saturating_sub(since) <= WRITERS as u64 => Told::NotApplied,
            None => Told::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn operation(writer: u64, number: u64) -> Operation {
        Operation { writer, number }
    }

    fn after(count: &Count, change: Change, operation: Operation) -> Count {
        match count.changed(change, operation) {
            Changed::To(count) => count,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn result_of_an_operation_survives_later_operations() {
        let first = after(&Count::default(), Change::Add(5), operation(1, 1));
        assert_eq!(first.told(operation(1, 1), 0), Told::Applied(5));
        let second = after(&first, Change::Add(7), operation(2, 1));
        assert_eq!(second.told(operation(1, 1), 0), Told::Applied(5), "with the result of then");
        assert_eq!(second.told(operation(1, 2), 2), Told::NotApplied);
        assert_eq!(second.told(operation(3, 1), 1), Told::NotApplied);
    }

    #[test]
    fn possibly_evicted_record_gives_no_answer() {
        let mut count = after(&Count::default(), Change::Add(1), operation(0, 1));
        for writer in 1..WRITERS as u64 {
            count = after(&count, Change::Add(1), operation(writer, 1));
        }
        assert_eq!(count.told(operation(0, 1), 0), Told::Applied(1), "it is the last of the records");
        let others = operation(WRITERS as u64, 1);
        assert_eq!(count.told(others, 0), Told::NotApplied, "there were too few writes to push it out");
        let count = after(&count, Change::Add(1), others);
        assert_eq!(count.told(operation(0, 1), 0), Told::Nothing);
        assert_eq!(count.told(operation(0, 1), 1), Told::NotApplied);
    }

    #[test]
    fn refused_change_writes_nothing() {
        let five = after(&Count::default(), Change::Add(5), operation(1, 1));
        assert_eq!(five.changed(Change::Swap { from: 4, to: 9 }, operation(1, 2)), Changed::Not);
        assert_eq!(five.changed(Change::Add(i64::MAX), operation(1, 2)), Changed::Overflow);
        let zero = after(&Count::beginning_with(1), Change::Down(1), operation(1, 1));
        assert_eq!((zero.value(), zero.initial()), (0, Some(1)));
        assert_eq!(zero.changed(Change::Down(1), operation(1, 2)), Changed::Not);
    }

    proptest! {
        /// Each operation is sent up to three times, and each request is carried out or not.
        #[test]
        fn value_is_the_sum_of_the_reported_operations(
            operations in proptest::collection::vec((0_u64..60, -9_i64..9, 0_u32..3), 0..200),
        ) {
            let (mut count, mut sum) = (Count::default(), 0);
            for (number, (writer, add, requests)) in operations.into_iter().enumerate() {
                let (operation, since) = (operation(writer, number as u64), count.writes());
                for _ in 0..requests {
                    if count.told(operation, since) == Told::NotApplied {
                        count = after(&count, Change::Add(add), operation);
                    }
                }
                if matches!(count.told(operation, since), Told::Applied(_)) {
                    sum += add;
                }
                prop_assert_eq!(count.to_string().parse(), Ok(count.clone()));
            }
            prop_assert_eq!(count.value(), sum);
        }
    }
}
