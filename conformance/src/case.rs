//! A case: a named test of one clause, for every backend.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::adapter::Adapter;
use crate::context::Context;

/// One case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name of the function. The name of the test is the [`title`](Case::title).
    pub name: &'static str,
    /// The clause of the contract that it checks.
    pub clause: &'static str,
    /// One line that describes the check of the case.
    pub line: &'static str,
    /// The recipe that takes the place of the mutex.
    pub adapter: Adapter,
    /// Whether it is about the behaviour of mutexes, and is played with each adapter.
    pub adapted: bool,
    /// Whether no other case may run on the same server at the same time (it counts requests).
    pub alone: bool,
    /// Whether it belongs to the long tier: a soak.
    pub long: bool,
    /// Whether it is one of the longest cases. These start first, because the run waits for the last one.
    pub lasting: bool,
    /// Whether it is of the clock class: with a plain mutex, its leases run out in real time. In other plays the case
    /// [ends them](crate::testbed::Fixture::end_lease).
    pub clock: bool,
    /// Whether servers play it in tier 2 and not in tier 1: chaos.
    pub faults: bool,
    /// Whether it tests only client code, as some [adapters](Adapter::is_client_code) do. Then one of the servers plays it.
    pub client_code: bool,
    /// The function that plays the case. A failed assertion panics.
    pub play: for<'a> fn(&'a Context) -> BoxFuture<'a, ()>,
}

impl Case {
    /// Returns the name, with the adapter unless that is a plain mutex: `mutex_excludes@semaphore-1`.
    pub fn title(&self) -> String {
        self.adapter.title(self.name)
    }

    /// Returns whether this play takes real time on a server: the case is of the clock class, played with a plain mutex.
    pub fn keeps_time(&self) -> bool {
        self.clock && self.adapter == Adapter::Mutex
    }

    /// Returns whether this play tests only client code.
    pub fn is_client_code(&self) -> bool {
        self.client_code || self.adapter.is_client_code()
    }

    /// Returns the plays of the case: one, or one for each adapter.
    pub(crate) fn plays(self) -> impl Iterator<Item = Self> {
        let adapters = Adapter::ALL.into_iter().take(if self.adapted { Adapter::ALL.len() } else { 1 });
        adapters.map(move |adapter| Self { adapter, ..self })
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title(), self.clause)
    }
}

/// Declares cases: each becomes a public async function and a row of `CASES`. Its tags are between the clause and the arrow:
/// `adapted`, `alone`, `long`, `lasting`, `clock`, `faults` and `client_code`, which set the fields of [`Case`].
macro_rules! cases {
    ($($clause:literal $($tag:ident)* => $(#[doc = $line:literal])+ async fn $name:ident($context:ident) $body:block)+) => {
        $(
            #[doc = concat!("`", $clause, "`:", $($line),+)]
            pub async fn $name($context: &$crate::context::Context) $body
        )+

        /// The cases of this file.
        pub(crate) const CASES: &[$crate::case::Case] = &[$({
            #[allow(unused_mut)]
            let mut case = $crate::case::Case {
                name: stringify!($name),
                clause: $clause,
                line: concat!($($line),+),
                adapter: $crate::adapter::Adapter::Mutex,
                adapted: false,
                alone: false,
                long: false,
                lasting: false,
                clock: false,
                faults: false,
                client_code: false,
                play: |context| Box::pin($name(context)),
            };
            $(case.$tag = true;)*
            case
        }),+];
    };
}
pub(crate) use cases;
