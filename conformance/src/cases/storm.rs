//! Random faults: clients contend while their links break, stall, and lose and delay requests, and while clients die and come back.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchwork_core::contracts::Page;
use latchwork_core::decide::Claim;
use latchwork_core::recipes::Acquire;
use latchwork_core::{Config, Coordinator, Error, ErrorKind, Hold, Kind, LostReason, Result, Token};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::is_long;
use super::soak::judged;
use crate::case::cases;
use crate::kit::{SHORT_TTL, Scene, queue_of, soon, within};
use crate::order::SoakKind;
use crate::stint::{Stint, in_order_of_tokens, none_overlap};
use crate::testbed::{Client, Link};

/// What a request is known by that is about one of the keys.
const KEY: &str = "storm";
const KEYS: usize = 12;
const CLIENTS: usize = 12;
const TASKS: usize = 4;
const LIMIT: u32 = 3;
/// How long it lasts on a paused clock; on a real one in the long tier, and else. The rarest that a storm must find, the ghost of a late
/// join, was missed by one of 20 storms of ten minutes, and by none of 250 of thirty.
const PAUSED: Duration = Duration::from_secs(1800);
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(12);
/// A client that was refused a connection tries again so soon.
const AGAIN: Duration = Duration::from_millis(100);
/// Who holds looks so often whether it does.
const LOOK: Duration = Duration::from_millis(5);

cases! {
    "MUTEX-EXCLUSION" =>
    /// random faults and crashes while 48 tasks of 12 clients contend and drop what they begin: none overlap, tokens rise, and all
    /// are served when it is over
    async fn mutex_in_a_storm(scene) {
        storm(scene, SoakKind::Exclusive, length(scene)).await;
    }

    "RWLOCK-EXCLUSION" =>
    /// random faults and crashes while 48 tasks of 12 clients read, write and downgrade: nobody beside a writer, writers and readers
    /// in the order of their tokens, and all are served when it is over
    async fn rwlock_in_a_storm(scene) {
        storm(scene, SoakKind::ReadWrite, length(scene)).await;
    }

    "SEMAPHORE-LIMIT" =>
    /// random faults and crashes while 48 tasks of 12 clients take permits in all weights: never more than the limit, and all are
    /// served when it is over
    async fn semaphore_in_a_storm(scene) {
        storm(scene, SoakKind::Permits { limit: LIMIT }, length(scene)).await;
    }
}

/// What was seen of one storm.
struct Storm {
    kind: SoakKind,
    began: Instant,
    ends: Instant,
    ttl: Duration,
    // Of each key.
    stints: Mutex<[Vec<Stint>; KEYS]>,
    lost: AtomicUsize,
    failed: AtomicUsize,
    given_up: AtomicUsize,
    crashes: AtomicUsize,
}

fn length(scene: &Scene) -> Duration {
    match (scene.bed.is_paused(), is_long()) {
        (true, _) => PAUSED,
        (false, true) => LONG,
        (false, false) => SHORT,
    }
}

/// A storm that lasts so long, and its verdict: it panics when two were inside at once, or out of the order of their tokens; when a
/// node of a client that is idle stays, or somebody is not served once it is over; when it was no storm.
pub(crate) async fn storm(scene: &Scene, kind: SoakKind, lasts: Duration) {
    let seed = scene.seed();
    let first = well(scene, &scene.config(SHORT_TTL)).await;
    let began = Instant::now();
    let storm = Arc::new(Storm {
        kind,
        began,
        ends: began + lasts,
        ttl: first.coordinator.lease().ttl(),
        stints: Mutex::default(),
        lost: AtomicUsize::default(),
        failed: AtomicUsize::default(),
        given_up: AtomicUsize::default(),
        crashes: AtomicUsize::default(),
    });
    let lives = (0..CLIENTS).map(|number| {
        let chance = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        storm.live_and_die(scene, &first, chance, number % 3 == 0)
    });
    let last = futures_util::future::join_all(lives).await;
    let holds = storm.judge();
    // Nothing that was sent before is under way any more.
    sleep(storm.ttl * 2).await;
    // It is over: whatever is left of it goes within a TTL, and all are served.
    for client in [first].into_iter().chain(last) {
        let recovery = scene.recovery(&client);
        for key in 0..KEYS {
            within(recovery, "its turn, when all is well", storm.serve(&client.coordinator, key))
                .await
                .expect("served");
        }
        soon("the close", client.coordinator.close()).await.expect("closed");
    }
    let count = |counter: &AtomicUsize| counter.load(Ordering::Acquire);
    let (lost, failed, given_up, crashes) =
        (count(&storm.lost), count(&storm.failed), count(&storm.given_up), count(&storm.crashes));
    eprintln!(
        "{}, {kind:?}: {holds} holds, {lost} lost, {failed} requests failed, {given_up} given up, {crashes} crashes",
        scene.bed.name()
    );
    assert!(holds > KEYS, "nobody got anything");
    // Every third client crashes at least once; whether a hold is lost in a short storm is a matter of luck.
    assert!(crashes >= CLIENTS / 3 && given_up > 0, "that was no storm");
    assert!(lasts < LONG || lost.min(failed) > 0, "that was no storm");
}

/// A client whose link is well. Where faults lie between servers, it may have to try again.
async fn well(scene: &Scene, config: &Config) -> Client {
    let connecting = async {
        loop {
            match scene.stage.client(config).await {
                Err(error) if error.is_retryable() => sleep(AGAIN).await,
                answer => return answer.expect("a client connects"),
            }
        }
    };
    soon("connect", connecting).await
}

impl Storm {
    /// The verdict on all that was held, and how often that was.
    fn judge(&self) -> usize {
        let stints = std::mem::take(&mut *self.stints.lock().unwrap_or_else(PoisonError::into_inner));
        for stints in &stints {
            judged(none_overlap(stints, LIMIT));
            if !matches!(self.kind, SoakKind::Permits { .. }) {
                // Permits are admitted in the order of their tokens too, but a light one may leave first.
                judged(in_order_of_tokens(stints));
            }
        }
        stints.iter().map(Vec::len).sum()
    }

    /// One client after the other, each for a while, looked at by one whose link is well. Answers the last.
    async fn live_and_die(
        self: &Arc<Self>,
        scene: &Scene,
        well: &Client,
        mut chance: StdRng,
        mut crashes: bool,
    ) -> Client {
        let mut config = scene.config(SHORT_TTL);
        let longest = (self.ttl * 10).min((self.ends - self.began) * 2 / 3);
        loop {
            let label = format!("client-{:x}", chance.random::<u64>());
            config.label = Some(label.clone());
            let client = self::well(scene, &config).await;
            let ends = self.ends.min(Instant::now() + chance.random_range(self.ttl..longest));
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let (storm, coordinator) = (Arc::clone(self), client.coordinator.clone());
                let chance = StdRng::seed_from_u64(chance.random());
                tasks.spawn(async move { storm.contend(&coordinator, chance, ends).await });
            }
            let weather = StdRng::seed_from_u64(chance.random());
            crashes |= chance.random_ratio(1, 2);
            self.weather(&*client.link, weather, ends).await;
            if ends < self.ends && std::mem::take(&mut crashes) {
                // As in a crash: it can say nothing any more, and never comes back.
                client.link.cut();
                self.crashes.fetch_add(1, Ordering::AcqRel);
                tasks.abort_all();
                while let Some(ended) = tasks.join_next().await {
                    assert!(
                        ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()),
                        "a task panicked"
                    );
                }
                continue;
            }
            while let Some(ended) = tasks.join_next().await {
                ended.expect("no panic");
            }
            // While its lease lives, which takes nothing back then.
            soon("nothing of a client that is idle stands in a queue", async {
                while !self.is_nowhere(scene, well, &label).await {
                    sleep(LOOK).await;
                }
            })
            .await;
            if Instant::now() >= self.ends {
                return client;
            }
            // What was sent just before may still be under way: then its end is not confirmed.
            if let Err(error) = soon("an end in order", client.coordinator.close()).await {
                self.expected(&error);
            }
        }
    }

    /// Whether no queue shows a node with this label. No answer is none.
    async fn is_nowhere(&self, scene: &Scene, well: &Client, label: &str) -> bool {
        let kind = match self.kind {
            SoakKind::Exclusive => Kind::Mutex,
            SoakKind::ReadWrite => Kind::RwLock,
            SoakKind::Permits { .. } => Kind::Semaphore,
        };
        for key in 0..KEYS {
            let queue = queue_of(scene, kind, &name(key));
            let listed = well.coordinator.backend().list(&queue, Page { after: 0, most: 1000 }).await;
            if !listed.is_ok_and(|entries| entries.iter().all(|entry| entry.label != label)) {
                return false;
            }
        }
        true
    }

    /// What the link suffers, one thing after the other, to the end; then it is well.
    async fn weather(&self, link: &dyn Link, mut chance: StdRng, ends: Instant) {
        let (ttl, chance) = (self.ttl, &mut chance);
        while Instant::now() < ends {
            pause(chance, Duration::ZERO..ttl / 2).await;
            match chance.random_range(0..7) {
                // The connection breaks: for a moment, or longer.
                0 => {
                    link.cut();
                    pause(chance, Duration::ZERO..Duration::from_millis(50)).await;
                }
                1 => {
                    link.cut();
                    pause(chance, ttl / 2..ttl * 2).await;
                }
                // All is slow, or stands still.
                2 => {
                    link.delay(chance.random_range(Duration::ZERO..ttl / 2));
                    pause(chance, Duration::ZERO..ttl * 2).await;
                }
                3 => {
                    link.delay(chance.random_range(ttl..ttl * 2));
                    pause(chance, ttl / 2..ttl * 2).await;
                }
                // Nobody need ask in that time, and what breaks the connection otherwise will do.
                4 => {
                    let mut dropped = link.drop_reply(KEY);
                    let _ = timeout(ttl, dropped.caught()).await;
                }
                _ => {
                    let mut parked = link.park(KEY);
                    if let Ok(Ok(())) = timeout(ttl, parked.caught()).await {
                        pause(chance, Duration::ZERO..ttl * 2).await;
                        soon("the late request lands", parked.deliver()).await;
                    }
                }
            }
            link.heal();
        }
    }

    async fn contend(&self, coordinator: &Coordinator, mut chance: StdRng, ends: Instant) {
        while Instant::now() < ends {
            let key = chance.random_range(0..KEYS);
            let patience = chance.random_range(Duration::ZERO..self.ttl * 3);
            let work = match chance.random_range(0..40) {
                0..2 => chance.random_range(Duration::ZERO..self.ttl * 3),
                2..15 => chance.random_range(Duration::ZERO..Duration::from_millis(50)),
                _ => chance.random_range(Duration::ZERO..Duration::from_millis(5)),
            };
            match timeout(patience, self.hold(coordinator, key, &mut chance, work)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.expected(&error);
                    pause(&mut chance, Duration::ZERO..Duration::from_millis(100)).await;
                }
                // Dropped wherever it was.
                Err(_) => {
                    self.given_up.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// Nobody removes anything here, and the servers keep what they have acknowledged: a loss is told by the deadline, or it is one
    /// that the server had no right to.
    fn expected(&self, error: &Error) {
        let of_faults = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Timeout => true,
            ErrorKind::Lost { reason } => *reason == LostReason::Expired,
            _ => false,
        };
        assert!(of_faults, "{error}");
        self.failed.fetch_add(1, Ordering::AcqRel);
    }

    /// All that there is to have, for a moment.
    async fn serve(&self, coordinator: &Coordinator, key: usize) -> Result<()> {
        let name = name(key);
        match self.kind {
            SoakKind::Exclusive => give_back(coordinator.mutex(name)?.acquire().await?, true).await,
            SoakKind::ReadWrite => give_back(coordinator.rwlock(name)?.write().await?, true).await,
            SoakKind::Permits { limit } => {
                give_back(coordinator.semaphore(name, limit)?.acquire(limit).await?, true).await
            }
        }
    }

    /// Acquires in one way or the other, and works.
    async fn hold(
        &self,
        coordinator: &Coordinator,
        key: usize,
        chance: &mut StdRng,
        work: Duration,
    ) -> Result<()> {
        let name = name(key);
        let tries = chance.random_ratio(1, 6);
        let options = match chance.random() {
            true => Acquire::new(),
            false => Acquire::new().within(chance.random_range(self.ttl / 100..self.ttl * 2)),
        };
        let releases = chance.random_ratio(3, 4);
        match self.kind {
            SoakKind::Exclusive => {
                let mutex = coordinator.mutex(name)?;
                let had = had(tries, mutex.try_acquire(), mutex.acquire_with(options)).await?;
                let Some(guard) = had else { return Ok(()) };
                self.witness(key, &guard, Claim::Exclusive, guard.token(), work).await;
                give_back(guard, releases).await
            }
            SoakKind::ReadWrite if chance.random_ratio(1, 3) => {
                let lock = coordinator.rwlock(name)?;
                let had = had(tries, lock.try_write(), lock.write_with(options)).await?;
                let Some(guard) = had else { return Ok(()) };
                self.witness(key, &guard, Claim::Exclusive, guard.token(), work).await;
                if chance.random() {
                    return give_back(guard, releases).await;
                }
                let guard = guard.downgrade().await?;
                self.witness(key, &guard, Claim::Shared, guard.token(), work).await;
                give_back(guard, releases).await
            }
            SoakKind::ReadWrite => {
                let lock = coordinator.rwlock(name)?;
                let had = had(tries, lock.try_read(), lock.read_with(options)).await?;
                let Some(guard) = had else { return Ok(()) };
                self.witness(key, &guard, Claim::Shared, guard.token(), work).await;
                give_back(guard, releases).await
            }
            SoakKind::Permits { limit } => {
                let (semaphore, weight) =
                    (coordinator.semaphore(name, limit)?, chance.random_range(1..=limit));
                let had = had(tries, semaphore.try_acquire(weight), semaphore.acquire_with(weight, options))
                    .await?;
                let Some(permit) = had else { return Ok(()) };
                self.witness(key, &permit, Claim::Permits(weight), permit.token(), work).await;
                give_back(permit, releases).await
            }
        }
    }

    /// Works under a hold, and notes for how long it certainly held: the clock is read before the look that says so.
    async fn witness(&self, key: usize, hold: &dyn Hold, claim: Claim, token: Token, work: Duration) {
        let from = self.now();
        let ends = Instant::now() + work;
        let mut noted = None;
        loop {
            let to = self.now();
            if let Err(error) = hold.check() {
                self.expected(&error);
                self.lost.fetch_add(1, Ordering::AcqRel);
                return;
            }
            {
                let mut stints = self.stints.lock().unwrap_or_else(PoisonError::into_inner);
                let at = *noted.get_or_insert_with(|| {
                    stints[key].push(Stint { claim, token: Some(token), from, to });
                    stints[key].len() - 1
                });
                stints[key][at].to = to;
            }
            if Instant::now() >= ends {
                return;
            }
            sleep(LOOK.min(ends - Instant::now())).await;
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a storm is short")
    }
}

fn name(key: usize) -> String {
    format!("{KEY}-{key}")
}

/// By a try, or by waiting.
async fn had<G>(
    tries: bool,
    trying: impl Future<Output = Result<Option<G>>>,
    waiting: impl Future<Output = Result<G>>,
) -> Result<Option<G>> {
    if tries { trying.await } else { waiting.await.map(Some) }
}

/// By a release, or by dropping it.
async fn give_back(hold: impl Hold, releases: bool) -> Result<()> {
    if releases {
        // Held until now or not: the stints are compared.
        let _ = hold.release().await?;
    }
    Ok(())
}

pub(crate) async fn pause(chance: &mut StdRng, range: Range<Duration>) {
    sleep(chance.random_range(range)).await;
}
