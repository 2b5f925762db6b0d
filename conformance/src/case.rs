//! A case: a named test of one clause, for every backend.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::adapter::Adapter;
use crate::context::Context;

/// One case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    /// The function's name. The test's is the [`title`](Case::title).
    pub name: &'static str,
    /// The clause of the contract that it checks.
    pub clause: &'static str,
    /// What it checks, in a line.
    pub line: &'static str,
    /// With what it is played.
    pub adapter: Adapter,
    /// Whether it is about what a mutex does, and played with every adapter.
    pub adapted: bool,
    /// Whether no other case may run beside it on the same server (it counts requests).
    pub alone: bool,
    /// Whether it belongs to the long tier: a soak.
    pub long: bool,
    /// Whether it is one of those that last longest: these begin first, since one that begins last is
    /// waited for.
    pub lasting: bool,
    /// Whether it is of the clock class: with a plain mutex its leases run out by themselves, and not because the case
    /// [ends them](crate::testbed::Fixture::end_lease).
    pub clock: bool,
    /// Whether servers play it in tier 2, not in tier 1: chaos.
    pub faults: bool,
    /// Whether it tests client code only, as some [adapters](Adapter::is_client_code) do: one of the servers plays it.
    pub client_code: bool,
    /// Plays it; a failed assertion panics.
    pub play: for<'a> fn(&'a Context) -> BoxFuture<'a, ()>,
}

impl Case {
    /// The name, and with what it is played when that is no plain mutex:
    /// `mutex_excludes@semaphore-1`.
    pub fn title(&self) -> String {
        self.adapter.title(self.name)
    }

    /// Whether this play of it keeps real time on a server: it is of the clock class, and played with a plain mutex.
    pub fn keeps_time(&self) -> bool {
        self.clock && self.adapter == Adapter::Mutex
    }

    /// Whether this play tests client code only.
    pub fn is_client_code(&self) -> bool {
        self.client_code || self.adapter.is_client_code()
    }

    /// The case as it is played: once, or once with every adapter.
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

/// Declares cases: each becomes a public async function, and a row of `CASES`. Between the clause
/// and the arrow are its tags: `adapted`, `alone`, `long`, `lasting`, `clock`, `faults` and `client_code`, as the fields
/// of [`Case`] say.
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
