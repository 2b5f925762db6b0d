//! The result of a case.

/// The result of a case that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played {
    /// The case passed.
    Whole,
    /// The testbed reported that it does not support the case.
    LeftOut(&'static str),
}
