use std::fmt;

use futures_util::future::BoxFuture;

use crate::adapter::Adapter;
use crate::context::Context;

/// One case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name.
    pub name: &'static str,
    /// The clause that it checks.
    pub clause: &'static str,
    /// The promise.
    pub line: &'static str,
    /// The recipe in the place of the mutex.
    pub adapter: Adapter,
    /// Whether it is played with each adapter.
    pub adapted: bool,
    /// Whether no other case may run on the same server.
    pub alone: bool,
    /// Whether it is of the long tier.
    pub long: bool,
    /// Whether it starts first, because it takes long.
    pub lasting: bool,
    /// Whether a plain mutex waits for the real end of leases. Other plays [end them](crate::testbed::Fixture::end_lease).
    pub clock: bool,
    /// Whether servers play it only in tier 2.
    pub faults: bool,
    /// Whether it tests only client code, on one of the servers.
    pub client_code: bool,
    /// Plays the case.
    pub play: for<'a> fn(&'a Context) -> BoxFuture<'a, ()>,
}

impl Case {
    /// Returns a name such as `mutex_excludes@semaphore-1`.
    pub fn title(&self) -> String {
        self.adapter.title(self.name)
    }

    /// Returns whether this play takes real time.
    pub fn keeps_time(&self) -> bool {
        self.clock && self.adapter == Adapter::Mutex
    }

    /// Returns whether this play tests only client code.
    pub fn is_client_code(&self) -> bool {
        self.client_code || self.adapter.is_client_code()
    }

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

/// Each case becomes a public function and a row of `CASES`. Tags set the fields of [`Case`].
macro_rules! cases {
    ($($clause:literal $($tag:ident)* => $(#[doc = $line:literal])+ async fn $name:ident($context:ident) $body:block)+) => {
        $(
            #[doc = concat!("`", $clause, "`:", $($line),+)]
            pub async fn $name($context: &$crate::context::Context) $body
        )+

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
