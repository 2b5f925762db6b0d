use std::ffi::OsString;
use std::time::Duration;

use latchwork::{
    Acquire, Acquired, Config, Coordinator, ErrorKind, Fenced, Guard, Hold, Limit, Result, Token,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    Reader,
    Writer,
    Semaphore {
        permits: u32,
        /// Without a limit, the stored limit.
        limit: Option<u32>,
    },
    Cron {
        min_hold: Duration,
    },
    Election {
        /// Other clients see it.
        data: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Try,
    /// Without a time, waits until the lock is free.
    Wait {
        within: Option<Duration>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) key: String,
    pub(crate) recipe: Recipe,
    pub(crate) patience: Patience,
    pub(crate) max_hold: Option<Duration>,
    /// From SIGTERM until the command must be gone.
    pub(crate) grace: Duration,
    pub(crate) owner_label: Option<String>,
    pub(crate) command: Vec<OsString>,
}

pub(crate) struct Held {
    pub(crate) hold: Hold,
    pub(crate) sequence: u64,
    /// Only of a recipe that fences.
    pub(crate) fence: Option<Token>,
}

impl Held {
    fn fenced(guard: impl Fenced) -> Self {
        let token = guard.token();
        Self { sequence: token.sequence(), fence: Some(token), hold: guard.into() }
    }

    fn unfenced(sequence: u64, hold: impl Into<Hold>) -> Self {
        Self { sequence, fence: None, hold: hold.into() }
    }
}

impl Job {
    /// Takes the time of the connect off the longest wait.
    #[must_use]
    pub(crate) fn connected_after(mut self, took: Duration) -> Self {
        if let Patience::Wait { within: Some(within) } = &mut self.patience {
            // A zero would be refused.
            *within = within.saturating_sub(took).max(Duration::from_millis(1));
        }
        self
    }

    /// Returns `None` if other clients hold or wait, and the job does not wait.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing.
    pub(crate) async fn acquire(&self, coordinator: &Coordinator) -> Result<Option<Held>> {
        Ok(match &self.recipe {
            Recipe::Mutex => {
                let lock = coordinator.mutex(&self.key)?;
                self.taken(lock.acquire(), lock.try_acquire()).await?.map(Held::fenced)
            }
            Recipe::Reader => {
                let lock = coordinator.rwlock(&self.key)?;
                let reader = self.taken(lock.read(), lock.try_read()).await?;
                reader.map(|reader| Held::unfenced(reader.sequence(), reader))
            }
            Recipe::Writer => {
                let lock = coordinator.rwlock(&self.key)?;
                self.taken(lock.write(), lock.try_write()).await?.map(Held::fenced)
            }
            Recipe::Semaphore { permits, limit } => {
                let semaphore =
                    coordinator.semaphore(&self.key, limit.map_or(Limit::Stored, Limit::Exactly))?;
                let (waits, tries) = (semaphore.acquire(*permits), semaphore.try_acquire(*permits));
                self.taken(waits, tries).await?.map(|permit| Held::unfenced(permit.sequence(), permit))
            }
            Recipe::Cron { min_hold } => self.tick(coordinator, *min_hold).await?,
            Recipe::Election { data } => {
                let election = coordinator.election(&self.key)?;
                let (waits, tries) = (election.campaign(data), election.try_campaign(data));
                self.taken(waits, tries).await?.map(Held::fenced)
            }
        })
    }

    /// The time that a connect has, which counts towards the user's time.
    pub(crate) fn connect_timeout(&self, config: &Config) -> Duration {
        let most = match (&self.recipe, self.patience) {
            (Recipe::Cron { .. }, _) | (_, Patience::Wait { within: None }) => Duration::MAX,
            (_, Patience::Wait { within: Some(within) }) => within,
            (_, Patience::Try) => config.request_timeout,
        };
        config.connect_timeout.min(most)
    }

    async fn taken<G: Guard>(&self, waits: Acquire<G>, tries: Acquire<Option<G>>) -> Result<Option<G>> {
        match self.patience {
            Patience::Wait { within: Some(within) } => {
                self.with_options(waits).within(within).await.map(Some)
            }
            Patience::Wait { within: None } => self.with_options(waits).await.map(Some),
            Patience::Try => self.with_options(tries).await,
        }
    }

    async fn tick(&self, coordinator: &Coordinator, taken: Duration) -> Result<Option<Held>> {
        let lock = coordinator.mutex(&self.key)?;
        let tried = self.with_options(lock.try_acquire()).min_hold(taken).await?;
        let acquired = match tried {
            // Several simultaneous tries can all be refused, so the hosts join the queue: one is first, and
            // the others give up long before the lock is free again.
            None if !coordinator.capabilities().clean_try => {
                match self.with_options(lock.acquire()).min_hold(taken).within(taken / 4).await {
                    Err(error) if error.kind() == ErrorKind::Timeout => None,
                    acquired => Some(acquired?),
                }
            }
            tried => tried,
        };
        Ok(acquired.map(Held::fenced))
    }

    fn with_options<T: Acquired>(&self, mut request: Acquire<T>) -> Acquire<T> {
        if let Some(most) = self.max_hold {
            request = request.max_hold(most);
        }
        match &self.owner_label {
            Some(label) => request.label(label.as_str()),
            None => request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(recipe: Recipe, patience: Patience) -> Job {
        Job {
            key: "k".to_owned(),
            recipe,
            patience,
            max_hold: None,
            grace: Duration::from_secs(1),
            owner_label: Some("me".to_owned()),
            command: Vec::new(),
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn each_recipe_is_acquired_with_its_label_and_a_try_does_not_wait() -> Result<()> {
        let coordinator = latchwork::connect("memory://").await?;
        let kinds = [
            (Recipe::Mutex, "mutex", true),
            (Recipe::Writer, "rwlock", true),
            (Recipe::Semaphore { permits: 2, limit: Some(3) }, "semaphore", false),
            (Recipe::Election { data: "d".to_owned() }, "election", true),
        ];
        for (recipe, kind, fences) in kinds {
            let held = job(recipe.clone(), Patience::Wait { within: None }).acquire(&coordinator).await?;
            let held = held.expect("free");
            assert_eq!(held.fence.is_some(), fences, "{kind}");
            let other = job(recipe.clone(), Patience::Try).acquire(&coordinator).await?;
            assert!(other.is_none(), "{kind}");
            let within = Some(Duration::from_millis(10));
            let late = job(recipe, Patience::Wait { within }).acquire(&coordinator).await;
            assert_eq!(late.err().expect("taken").kind(), ErrorKind::Timeout, "{kind}");
            held.hold.release().await?;
        }
        let reader = job(Recipe::Reader, Patience::Try).acquire(&coordinator).await?.expect("free");
        assert!(job(Recipe::Reader, Patience::Try).acquire(&coordinator).await?.is_some(), "beside a reader");
        assert!(job(Recipe::Writer, Patience::Try).acquire(&coordinator).await?.is_none(), "beside a reader");
        assert_eq!(coordinator.rwlock("k")?.queue().first(1).await?[0].label, "me");
        drop(reader);
        coordinator.close().await
    }

    #[test]
    fn connect_counts_towards_the_time_that_the_user_gave() {
        let config = Config::new("redis");
        let two = Duration::from_secs(2);
        let cron = Recipe::Cron { min_hold: two };
        for (recipe, patience, timeout) in [
            (Recipe::Mutex, Patience::Wait { within: Some(two / 2) }, two / 2),
            (Recipe::Mutex, Patience::Wait { within: Some(20 * two) }, config.connect_timeout),
            (Recipe::Mutex, Patience::Wait { within: None }, config.connect_timeout),
            (Recipe::Mutex, Patience::Try, config.request_timeout),
            (cron, Patience::Try, config.connect_timeout),
        ] {
            assert_eq!(job(recipe, patience).connect_timeout(&config), timeout, "{patience:?}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_tick_that_has_run_stays_taken() -> Result<()> {
        let coordinator = latchwork::connect("memory://").await?;
        let cron = || job(Recipe::Cron { min_hold: Duration::from_millis(300) }, Patience::Try);
        let first = cron().acquire(&coordinator).await?.expect("free");
        first.hold.release().await?;
        assert!(cron().acquire(&coordinator).await?.is_none(), "it has already run");
        coordinator.close().await
    }
}
