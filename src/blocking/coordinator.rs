//! The user's handle on one connected client, which makes the recipes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::home::Home;
use super::{
    Barrier, Clients, CountDownLatch, Counter, DoubleBarrier, Election, Group, IdGenerator, Mutex, Queues,
    ReentrantMutex, RwLock, Semaphore, SharedValue, Values,
};
use crate::contracts::Lease;
use crate::facts::ServerFacts;
use crate::{Capabilities, Error, Kind, Name, Result};

/// A client of one coordinator, with a thread of its own. As
/// [`latchwork::Coordinator`](crate::Coordinator); made by [`connect`](super::connect).
///
/// Cloning is cheap, and recipes are cheap handles made from it without I/O. When the last clone,
/// recipe, guard and watch is dropped, its thread gives everything back and ends.
#[derive(Clone)]
pub struct Coordinator {
    coordinator: crate::Coordinator,
    home: Home,
}

/// Declares the methods that make a handle, with the arguments behind the key.
macro_rules! makes {
    ($($(#[$about:meta])+ fn $name:ident($($argument:ident: $kind:ty)?) -> $recipe:ident;)+) => {$(
        $(#[$about])+
        #[doc = concat!("As [`Coordinator::", stringify!($name), "`](crate::Coordinator::", stringify!($name), ").")]
        ///
        /// # Errors
        /// `InvalidArgument` naming the argument.
        pub fn $name(&self, key: impl Into<Name> $(, $argument: $kind)?) -> Result<$recipe> {
            Ok($recipe::new(self.coordinator.$name(key $(, $argument)?)?, &self.home))
        }
    )+};
}

impl Coordinator {
    /// Starts a thread with a runtime, and connects by `connect` on it: for backends of your own, and
    /// for tests with a store of their own.
    ///
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// let config = latchwork::Config::from_url("memory://")?;
    /// let connecting = async { latchwork::connect(config).await }; // or with a connector of yours
    /// let coordinator = latchwork::blocking::Coordinator::opened_by(connecting)?;
    /// coordinator.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `connect`; `InAsyncCode`; `Unavailable` when the system gives no thread.
    pub fn opened_by(connect: impl Future<Output = Result<crate::Coordinator>>) -> Result<Self> {
        let (home, coordinator) = Home::open(connect)?;
        Ok(Self { coordinator, home })
    }

    makes! {
        /// A mutex: no I/O.
        fn mutex() -> Mutex;
        /// A mutex that its owner may acquire again: no I/O.
        fn reentrant_mutex() -> ReentrantMutex;
        /// A read/write lock: no I/O.
        fn rwlock() -> RwLock;
        /// A semaphore of exactly `limit` permits: no I/O.
        fn semaphore(limit: u32) -> Semaphore;
        /// A semaphore of the stored limit, or of `limit` when none is stored: no I/O.
        fn semaphore_or_stored(limit: u32) -> Semaphore;
        /// A semaphore that follows the limit that others have stored: no I/O.
        fn semaphore_as_stored() -> Semaphore;
        /// A value that all clients share: no I/O.
        fn shared_value() -> SharedValue;
        /// A number that all clients share: no I/O.
        fn counter() -> Counter;
        /// A generator of unique ids: no I/O.
        fn id_generator() -> IdGenerator;
        /// A latch that opens after `count` count-downs: no I/O.
        fn count_down_latch(count: u32) -> CountDownLatch;
        /// An election: no I/O.
        fn election() -> Election;
        /// A group of members: no I/O.
        fn group() -> Group;
        /// A barrier that so many `parties` pass together: no I/O.
        fn barrier(parties: u32) -> Barrier;
        /// A barrier that so many `parties` enter together and leave together: no I/O.
        fn double_barrier(parties: u32) -> DoubleBarrier;
    }

    /// The connected clients of the namespace: no I/O.
    pub fn clients(&self) -> Clients {
        Clients::new(self.coordinator.clients(), &self.home)
    }

    /// The queues of a kind that are in use: no I/O. As
    /// [`Coordinator::queues`](crate::Coordinator::queues).
    ///
    /// # Errors
    /// `InvalidArgument` naming `prefix`.
    pub fn queues(&self, kind: Kind, prefix: &str) -> Result<Queues> {
        Ok(Queues::new(self.coordinator.queues(kind, prefix)?, &self.home))
    }

    /// The stored values of a kind: no I/O. As [`Coordinator::values`](crate::Coordinator::values).
    ///
    /// # Errors
    /// `InvalidArgument` naming `prefix` or `kind`.
    pub fn values(&self, kind: Kind, prefix: &str) -> Result<Values> {
        Ok(Values::new(self.coordinator.values(kind, prefix)?, &self.home))
    }

    /// Raises the layout of the namespace: for operators. As
    /// [`Coordinator::raise_layout`](crate::Coordinator::raise_layout), with its errors, and `InAsyncCode`.
    pub fn raise_layout(&self) -> Result<u32> {
        self.home.run(self.coordinator.raise_layout())
    }

    /// What the server says of itself, for diagnosis. As
    /// [`Coordinator::server_facts`](crate::Coordinator::server_facts), with its errors, and `InAsyncCode`.
    pub fn server_facts(&self) -> Result<ServerFacts> {
        self.home.run(self.coordinator.server_facts())
    }

    /// Retires the namespace on this server: for operators. As
    /// [`Coordinator::retire`](crate::Coordinator::retire), with its errors, and `InAsyncCode`.
    pub fn retire(&self, to: &str) -> Result<()> {
        self.home.run(self.coordinator.retire(to))
    }

    /// What is marked on the namespace: for operators who look. As
    /// [`Coordinator::marker`](crate::Coordinator::marker), with its errors, and `InAsyncCode`.
    pub fn marker(&self) -> Result<Option<crate::decide::moving::gate::GateMarker>> {
        self.home.run(self.coordinator.marker())
    }

    /// Takes back what [`retire`](Self::retire) did: for operators. As
    /// [`Coordinator::reopen`](crate::Coordinator::reopen), with its errors, and `InAsyncCode`.
    pub fn reopen(&self) -> Result<bool> {
        self.home.run(self.coordinator.reopen())
    }

    /// Its [name](crate::Config::name).
    pub fn name(&self) -> Option<&str> {
        self.coordinator.name()
    }

    /// What the backend promises beyond the contracts.
    pub fn capabilities(&self) -> Capabilities {
        self.coordinator.capabilities()
    }

    /// The current lease, to look at.
    pub fn lease(&self) -> Lease {
        self.coordinator.lease()
    }

    /// The label that this client's nodes carry on the server.
    pub fn label(&self) -> &str {
        self.coordinator.label()
    }

    /// Gives everything back. As [`Coordinator::close`](crate::Coordinator::close), with its errors, and
    /// `InAsyncCode`.
    pub fn close(&self) -> Result<()> {
        self.home.run(self.coordinator.close())
    }

    /// As [`close`](Self::close), without waiting for holds under `hold_at_least`. As
    /// [`Coordinator::close_now`](crate::Coordinator::close_now), with its errors, and `InAsyncCode`.
    pub fn close_now(&self) -> Result<()> {
        self.home.run(self.coordinator.close_now())
    }

    /// Runs `work` with this coordinator, and closes it on each way out: when the work succeeds, fails
    /// or panics. As [`Coordinator::close_after`](crate::Coordinator::close_after).
    ///
    /// # Errors
    /// The work's; else the close's, as [`close`](Self::close).
    ///
    /// # Panics
    /// As the work, once everything is given back.
    pub fn close_after<T, E: From<Error>>(
        self,
        work: impl FnOnce(Coordinator) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let worked = catch_unwind(AssertUnwindSafe(|| work(self.clone())));
        let closed = self.close();
        match worked {
            Ok(Ok(done)) => closed.map(|()| done).map_err(E::from),
            failed => {
                if let Err(error) = closed {
                    crate::seen::not_given_back(&error);
                }
                failed.unwrap_or_else(|panic| resume_unwind(panic))
            }
        }
    }

    /// Crashes the client, as though the process had been killed. For tests. As
    /// [`Coordinator::crash`](crate::Coordinator::crash).
    ///
    /// # Errors
    /// `InAsyncCode` only.
    pub fn crash(&self) -> Result<()> {
        self.home.run(async {
            self.coordinator.crash().await;
            Ok(())
        })
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.coordinator.fmt(f)
    }
}
