//! A command to run under a hold, and how the hold is acquired.

use std::ffi::OsString;
use std::time::Duration;

use latchwork::{Acquire, Coordinator, ErrorKind, Hold, Result, Token};

/// Which recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// A mutex.
    Mutex,
    /// A read/write lock, to read.
    Reader,
    /// A read/write lock, to write.
    Writer,
    /// Permits of a semaphore; without a limit, of the stored one.
    Semaphore {
        /// How many.
        permits: u32,
        /// Of how many.
        limit: Option<u32>,
    },
    /// A mutex for a job of many hosts.
    Cron {
        /// How long the job stays taken.
        hold_at_least: Duration,
    },
    /// Leadership.
    Election {
        /// What others see of the leader.
        data: String,
    },
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    Try,
    /// At most so long; without a time as long as others hold.
    Wait {
        /// The longest.
        within: Option<Duration>,
    },
}

/// A command to run under a hold.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: String,
    pub(crate) recipe: Recipe,
    pub(crate) patience: Patience,
    pub(crate) max_hold: Option<Duration>,
    /// How long before it must be gone the command is asked to end.
    pub(crate) grace: Duration,
    pub(crate) owner_label: Option<String>,
    pub(crate) command: Vec<OsString>,
}

/// A hold of any recipe.
pub(crate) struct Held {
    pub(crate) hold: Box<dyn Hold>,
    /// Its number on the server.
    pub(crate) token: Token,
    /// Whether the number is a fence.
    pub(crate) fences: bool,
}

/// Makes a [`Held`] of a guard.
macro_rules! held {
    ($guard:expr, $fences:literal) => {
        $guard.map(|guard| {
            let token = guard.token();
            Held { hold: Box::new(guard), token, fences: $fences }
        })
    };
}

/// Calls a verb as the patience says.
macro_rules! acquire {
    ($job:ident, $options:ident, $handle:expr, $wait:ident, $try:ident, ($($argument:expr),*)) => {
        match $job.patience {
            Patience::Wait { within } => {
                let options = within.map_or($options.clone(), |within| $options.clone().within(within));
                Some($handle.$wait($($argument,)* options).await?)
            }
            Patience::Try => $handle.$try($($argument,)* $options.clone()).await?,
        }
    };
}

impl Job {
    /// Acquires. `None` if others hold or wait, and it is not to wait.
    ///
    /// # Errors
    /// As the recipe's acquisition; `Timeout` after the longest wait.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing.
    pub(crate) async fn acquire(&self, coordinator: &Coordinator) -> Result<Option<Held>> {
        let options = self.options();
        Ok(match &self.recipe {
            Recipe::Mutex => {
                let lock = coordinator.mutex(&self.key)?;
                held!(acquire!(self, options, lock, acquire_with, try_acquire_with, ()), true)
            }
            Recipe::Reader => {
                let lock = coordinator.rwlock(&self.key)?;
                held!(acquire!(self, options, lock, read_with, try_read_with, ()), false)
            }
            Recipe::Writer => {
                let lock = coordinator.rwlock(&self.key)?;
                held!(acquire!(self, options, lock, write_with, try_write_with, ()), true)
            }
            Recipe::Semaphore { permits, limit } => {
                let semaphore = match limit {
                    Some(limit) => coordinator.semaphore(&self.key, *limit)?,
                    None => coordinator.semaphore_as_stored(&self.key)?,
                };
                held!(acquire!(self, options, semaphore, acquire_with, try_acquire_with, (*permits)), false)
            }
            Recipe::Cron { hold_at_least } => self.tick(coordinator, *hold_at_least).await?,
            Recipe::Election { data } => {
                let election = coordinator.election(&self.key)?;
                held!(
                    acquire!(self, options, election, campaign_with, try_campaign_with, (data.as_bytes())),
                    true
                )
            }
        })
    }

    /// One tick of a job that starts on many hosts.
    async fn tick(&self, coordinator: &Coordinator, taken: Duration) -> Result<Option<Held>> {
        let lock = coordinator.mutex(&self.key)?;
        let options = || self.options().hold_at_least(taken);
        let acquired = match lock.try_acquire_with(options()).await? {
            // Where all of several tries may be refused, one host is first in the queue. The others
            // give up long before the tick is free again.
            None if !coordinator.capabilities().clean_try => {
                match lock.acquire_with(options().within(taken / 4)).await {
                    Err(error) if error.kind() == &ErrorKind::Timeout => None,
                    acquired => Some(acquired?),
                }
            }
            tried => tried,
        };
        Ok(held!(acquired, true))
    }

    fn options(&self) -> Acquire {
        let mut options = Acquire::new();
        if let Some(most) = self.max_hold {
            options = options.max_hold(most);
        }
        if let Some(label) = &self.owner_label {
            options = options.label(label.as_str());
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use latchwork::Release;

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
            assert_eq!(held.fences, fences, "{kind}");
            let other = job(recipe.clone(), Patience::Try).acquire(&coordinator).await?;
            assert!(other.is_none(), "{kind}");
            let within = Some(Duration::from_millis(10));
            let late = job(recipe, Patience::Wait { within }).acquire(&coordinator).await;
            assert_eq!(late.err().expect("taken").kind(), &ErrorKind::Timeout, "{kind}");
            assert_eq!(held.hold.release().await?, Release::Released);
        }
        let reader = job(Recipe::Reader, Patience::Try).acquire(&coordinator).await?.expect("free");
        assert!(job(Recipe::Reader, Patience::Try).acquire(&coordinator).await?.is_some(), "beside a reader");
        assert!(job(Recipe::Writer, Patience::Try).acquire(&coordinator).await?.is_none(), "beside a reader");
        assert_eq!(coordinator.rwlock("k")?.queue(0, 1).await?[0].label, "me");
        drop(reader);
        coordinator.close().await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_tick_that_has_run_stays_taken() -> Result<()> {
        let coordinator = latchwork::connect("memory://").await?;
        let cron = || job(Recipe::Cron { hold_at_least: Duration::from_millis(300) }, Patience::Try);
        let first = cron().acquire(&coordinator).await?.expect("free");
        assert_eq!(first.hold.release().await?, Release::Released);
        assert!(cron().acquire(&coordinator).await?.is_none(), "it has run already");
        coordinator.close().await
    }
}
