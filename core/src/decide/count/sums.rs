//! Changes of several tasks as one operation (COUNT-ADDED-UP). Its result gives each task the result that it
//! would have had one after the other. Only additions of one direction are added up: if their sum fits, each
//! partial sum fits.

use super::Change;

impl Change {
    /// Returns this change and then `next` as one change, if possible.
    #[must_use]
    pub fn and(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Add(one), Self::Add(other)) if one.signum() * other.signum() >= 0 => {
                one.checked_add(other).map(Self::Add)
            }
            (Self::Down(one), Self::Down(other)) => one.checked_add(other).map(Self::Down),
            _ => None,
        }
    }

    fn undone(self, result: i64) -> i64 {
        match self {
            Self::Add(number) => result - number,
            Self::Down(ones) => result + i64::from(ones),
            Self::Swap { .. } => result,
        }
    }
}

/// Returns the result of each change, if `result` is the result of all together.
pub fn shares(changes: &[Change], result: i64) -> Vec<i64> {
    let mut after = result;
    let mut shares: Vec<_> = changes
        .iter()
        .rev()
        .map(|change| {
            let share = if matches!(change, Change::Down(_)) { after.max(0) } else { after };
            after = change.undone(after);
            share
        })
        .collect();
    shares.reverse();
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Changed, Count, Operation};
    use super::*;

    fn made(count: &Count, change: Change, number: u64) -> Option<Count> {
        match count.changed(change, Operation { writer: 1, number }) {
            Changed::To(next) => Some(next),
            Changed::Not | Changed::Overflow => None,
        }
    }

    fn change(down: bool, number: i64) -> Change {
        if down { Change::Down(1) } else { Change::Add(number) }
    }

    #[test]
    fn only_changes_of_one_direction_are_added_up() {
        let swap = Change::Swap { from: 1, to: 2 };
        for (one, next, both) in [
            (Change::Add(2), Change::Add(3), Some(Change::Add(5))),
            (Change::Add(-2), Change::Add(-3), Some(Change::Add(-5))),
            (Change::Add(0), Change::Add(-3), Some(Change::Add(-3))),
            (Change::Add(2), Change::Add(-3), None),
            (Change::Add(2), Change::Add(i64::MAX), None),
            (Change::Down(2), Change::Down(1), Some(Change::Down(3))),
            (Change::Down(1), Change::Add(-1), None),
            (swap, swap, None),
        ] {
            assert_eq!(one.and(next), both, "{one:?}, {next:?}");
        }
    }

    proptest! {
        #[test]
        fn changes_added_up_answer_as_one_after_the_other(
            began in 0_u32..9,
            down in any::<bool>(),
            numbers in proptest::collection::vec(prop_oneof![0_i64..9, Just(i64::MAX), Just(-5)], 1..9),
        ) {
            let changes: Vec<_> = numbers.into_iter().map(|number| change(down, number)).collect();
            let Some(all) = changes[1..].iter().try_fold(changes[0], |all, next| all.and(*next)) else { return Ok(()) };
            let count = Count::beginning_with(began);
            let mut single = count.clone();
            let mut results = Vec::new();
            for (number, change) in (1..).zip(&changes) {
                match made(&single, *change, number) {
                    Some(next) => single = next,
                    // A latch at zero answers zero, and a sum that does not fit is refused.
                    None if down => {}
                    None => return Ok(()),
                }
                results.push(single.value());
            }
            match made(&count, all, 1) {
                Some(together) => {
                    prop_assert_eq!(shares(&changes, together.result()), results);
                    prop_assert_eq!(together.value(), single.value());
                }
                None => prop_assert!(down && results.iter().all(|result| *result == 0)),
            }
        }
    }
}
