/// The result of a case without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played {
    /// It passed.
    Whole,
    /// The testbed does not support it, for this reason.
    LeftOut(&'static str),
}
