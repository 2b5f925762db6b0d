//! A case: a named test of one clause, for every backend.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::kit::Scene;

/// One case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    /// The function's name, which is the test's name.
    pub name: &'static str,
    /// The clause of the contract that it checks.
    pub clause: &'static str,
    /// What it checks, in a line.
    pub line: &'static str,
    /// Whether no other case may run beside it on the same server (it counts requests).
    pub alone: bool,
    /// Whether it belongs to the long tier: a soak.
    pub long: bool,
    /// Plays it; a failed assertion panics.
    pub play: for<'a> fn(&'a Scene) -> BoxFuture<'a, ()>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.clause)
    }
}

/// Declares cases: each becomes a public async function, and a row of `CASES`.
macro_rules! cases {
    ($($clause:literal $($tag:ident)? => $(#[doc = $line:literal])+ async fn $name:ident($scene:ident) $body:block)+) => {
        $(
            #[doc = concat!("`", $clause, "`:", $($line),+)]
            pub async fn $name($scene: &$crate::kit::Scene) $body
        )+

        /// The cases of this file.
        pub(crate) const CASES: &[$crate::case::Case] = &[$(
            $crate::case::Case {
                name: stringify!($name),
                clause: $clause,
                line: concat!($($line),+),
                alone: cases!(@alone $($tag)?),
                long: cases!(@long $($tag)?),
                play: |scene| Box::pin($name(scene)),
            }
        ),+];
    };
    (@alone alone) => { true };
    (@alone $($other:ident)?) => { false };
    (@long long) => { true };
    (@long $($other:ident)?) => { false };
}
pub(crate) use cases;
