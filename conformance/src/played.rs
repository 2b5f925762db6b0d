//! What became of a case.

/// What became of a case that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played {
    /// It was played to its end.
    Whole,
    /// The testbed said, as it must, that it has not what the case needs.
    LeftOut(&'static str),
}
