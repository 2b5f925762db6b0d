//! The cases, by contract.

pub mod attempt;
pub mod cancel;
mod contender;
pub mod crowd;
pub mod downgrade;
pub mod futures;
pub mod held;
pub mod key;
pub mod label;
pub mod lease;
pub mod least;
pub mod limit;
pub mod load;
pub mod mutex;
pub mod node;
pub mod operator;
pub mod outlived;
pub mod process;
pub mod reentry;
pub mod rwlock;
pub mod semaphore;
pub mod soak;
pub mod storm;

use crate::case::Case;

/// The environment variable that adds the long tier when it is `1`.
pub const LONG: &str = "LATCHWORK_LONG";

/// Whether the long tier is played.
pub fn is_long() -> bool {
    std::env::var(LONG).is_ok_and(|value| value == "1")
}

/// Every case of the suite as it is played, in a fixed order: with every adapter if it is about what a mutex does, and the
/// long tier's only when [`LONG`] says so.
pub fn all() -> Vec<Case> {
    let long = is_long();
    let mut cases = [
        key::CASES,
        lease::CASES,
        node::CASES,
        label::CASES,
        operator::CASES,
        attempt::CASES,
        cancel::CASES,
        crowd::CASES,
        mutex::CASES,
        least::CASES,
        process::CASES,
        reentry::CASES,
        rwlock::CASES,
        downgrade::CASES,
        semaphore::CASES,
        limit::CASES,
        load::CASES,
        outlived::CASES,
        held::CASES,
        soak::CASES,
        storm::CASES,
    ]
    .concat();
    cases.retain(|case| long || !case.long);
    cases.into_iter().flat_map(Case::plays).collect()
}
