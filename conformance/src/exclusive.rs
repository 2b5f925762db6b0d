use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;

use latchwork_core::backend::QueueEntry;
use latchwork_core::recipes::{
    self, Acquire, Acquired, MultiGuard, MultiLock, Mutex, Permit, QuorumGuard, QuorumLock, RwLock, Semaphore,
};
use latchwork_core::{Fenced, Hold, Owner, Result, Token};

use crate::taken::Taken;
use crate::wait::Wait;

#[derive(Clone, Debug)]
pub(crate) enum Lock {
    Mutex(Mutex),
    Writer(RwLock),
    /// The owner is new each time, and has the client's label, so that a listing shows the same as for a
    /// mutex.
    Owners {
        lock: Mutex,
        label: Arc<str>,
    },
    Multi {
        lock: MultiLock,
        mutex: Mutex,
    },
    Quorum {
        lock: QuorumLock,
        mutex: Mutex,
    },
    /// In addition to another client's permits.
    Permits {
        semaphore: Semaphore,
        weight: u32,
        taken: Option<Arc<Taken>>,
    },
}

impl Lock {
    pub(crate) fn acquire(&self) -> Request<Guard> {
        Request::new(self, |lock, options| {
            let wait = options.within.map_or(Wait::Forever, Wait::AtMost);
            Box::pin(async move { lock.take(wait, options).await.map(|guard| guard.expect("it has waited")) })
        })
    }

    pub(crate) fn try_acquire(&self) -> Request<Option<Guard>> {
        Request::new(self, |lock, options| Box::pin(lock.take(Wait::No, options)))
    }

    async fn take(self, wait: Wait, options: Options) -> Result<Option<Guard>> {
        self.others().await?;
        Ok(match &self {
            Self::Mutex(mutex) => {
                options.take(wait, mutex.try_acquire(), mutex.acquire()).await?.map(Guard::fenced)
            }
            Self::Writer(lock) => {
                options.take(wait, lock.try_write(), lock.write()).await?.map(Guard::fenced)
            }
            Self::Owners { lock, label } => {
                let owner = Owner::new(Arc::clone(label));
                let (tries, waits) = (lock.try_acquire().by(&owner), lock.acquire().by(&owner));
                options.take(wait, tries, waits).await?.map(Guard::fenced)
            }
            Self::Multi { lock, .. } => {
                options.take(wait, lock.try_acquire(), lock.acquire()).await?.map(Guard::only_member)
            }
            Self::Quorum { lock, .. } => {
                options.take(wait, lock.try_acquire(), lock.acquire()).await?.map(Guard::whole_quorum)
            }
            Self::Permits { semaphore, weight, .. } => {
                let (tries, waits) = (semaphore.try_acquire(*weight), semaphore.acquire(*weight));
                options.take(wait, tries, waits).await?.map(Guard::sole)
            }
        })
    }

    pub(crate) async fn queue(&self, most: usize) -> Result<Vec<QueueEntry>> {
        let others = self.others().await?;
        let queue = match self {
            Self::Mutex(mutex) | Self::Multi { mutex, .. } | Self::Quorum { mutex, .. } => mutex.queue(),
            Self::Writer(lock) => lock.queue(),
            Self::Owners { lock, .. } => lock.queue(),
            Self::Permits { semaphore, .. } => semaphore.queue(),
        };
        let mut entries = queue.first(most).await?;
        entries.retain(|entry| Some(entry.sequence) != others);
        Ok(entries)
    }

    pub(crate) async fn force_release(&self, sequence: u64) -> Result<bool> {
        match self {
            Self::Mutex(mutex) | Self::Multi { mutex, .. } | Self::Quorum { mutex, .. } => {
                mutex.force_release(sequence).await
            }
            Self::Writer(lock) => lock.force_release(sequence).await,
            Self::Owners { lock, .. } => lock.force_release(sequence).await,
            Self::Permits { semaphore, .. } => semaphore.force_release(sequence).await,
        }
    }

    async fn others(&self) -> Result<Option<u64>> {
        match self {
            Self::Permits { semaphore, taken: Some(taken), .. } => {
                taken.take(semaphore.key()).await.map(Some)
            }
            _ => Ok(None),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    within: Option<Duration>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    fail_fast: bool,
    min_replicas: Option<u32>,
    label: Option<Arc<str>>,
}

impl Options {
    async fn take<G: recipes::Guard>(
        self,
        wait: Wait,
        tries: Acquire<Option<G>>,
        waits: Acquire<G>,
    ) -> Result<Option<G>> {
        wait.take(self.clone().on(tries), self.on(waits)).await
    }

    fn on<T: Acquired>(self, mut request: Acquire<T>) -> Acquire<T> {
        if let Some(time) = self.max_hold {
            request = request.max_hold(time);
        }
        if let Some(time) = self.min_hold {
            request = request.min_hold(time);
        }
        if self.fail_fast {
            request = request.fail_fast();
        }
        if let Some(replicas) = self.min_replicas {
            request = request.min_replicas(replicas);
        }
        match self.label {
            Some(label) => request.label(label),
            None => request,
        }
    }
}

/// Starts at its first poll, as in the library.
#[must_use = "an acquisition does nothing until it is awaited"]
pub(crate) struct Request<T>(RequestState<T>);

type Begin<T> = fn(Lock, Options) -> BoxFuture<'static, Result<T>>;

enum RequestState<T> {
    Asked(Box<(Lock, Options)>, Begin<T>),
    Running(BoxFuture<'static, Result<T>>),
}

impl<T> Request<T> {
    fn new(lock: &Lock, begin: Begin<T>) -> Self {
        Self(RequestState::Asked(Box::new((lock.clone(), Options::default())), begin))
    }

    fn set(mut self, set: impl FnOnce(&mut Options)) -> Self {
        match &mut self.0 {
            RequestState::Asked(asked, _) => set(&mut asked.1),
            RequestState::Running(_) => panic!("an option was set after the first poll"),
        }
        self
    }

    pub(crate) fn max_hold(self, time: Duration) -> Self {
        self.set(|options| options.max_hold = Some(time))
    }

    pub(crate) fn min_hold(self, time: Duration) -> Self {
        self.set(|options| options.min_hold = Some(time))
    }

    pub(crate) fn fail_fast(self) -> Self {
        self.set(|options| options.fail_fast = true)
    }

    pub(crate) fn min_replicas(self, replicas: u32) -> Self {
        self.set(|options| options.min_replicas = Some(replicas))
    }

    pub(crate) fn label(self, label: impl Into<Arc<str>>) -> Self {
        let label = label.into();
        self.set(|options| options.label = Some(label))
    }
}

impl Request<Guard> {
    pub(crate) fn within(self, time: Duration) -> Self {
        self.set(|options| options.within = Some(time))
    }
}

impl<T> Future for Request<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if let RequestState::Asked(asked, begin) = &self.0 {
            let (lock, options) = (**asked).clone();
            let running = begin(lock, options);
            self.0 = RequestState::Running(running);
        }
        match &mut self.0 {
            RequestState::Running(running) => running.as_mut().poll(context),
            RequestState::Asked(..) => unreachable!("begun above"),
        }
    }
}

#[must_use = "a guard that is dropped at once releases at once"]
#[derive(Debug)]
pub(crate) struct Guard {
    hold: Hold,
    // `None` for a quorum hold that was lost during its acquisition.
    token: Option<Token>,
}

impl Guard {
    pub(crate) fn fenced(guard: impl Fenced) -> Self {
        Self { token: Some(guard.token()), hold: guard.into() }
    }

    /// The only permit has the sequence of a mutex.
    fn sole(permit: Permit) -> Self {
        Self { token: Some(permit.place()), hold: permit.into() }
    }

    fn only_member(guard: MultiGuard) -> Self {
        Self { token: guard.tokens()[0], hold: guard.into() }
    }

    /// A quorum of one has the sequence of its mutex.
    fn whole_quorum(guard: QuorumGuard) -> Self {
        let token = guard.sequences()[0].map(|sequence| Token::new(0, sequence).expect("a sequence"));
        Self { token, hold: guard.into() }
    }

    pub(crate) fn token(&self) -> Token {
        self.token.expect("it was held when it was acquired")
    }
}

impl From<Guard> for Hold {
    fn from(guard: Guard) -> Self {
        guard.hold
    }
}

impl Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
