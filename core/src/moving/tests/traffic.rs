use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::driver::Stores;
use crate::decide::moving::{MovePhase, Stage, Way};
use crate::{Coordinator, Token};

const HOLD: Duration = Duration::from_millis(40);
pub(in crate::moving) const TASKS: u64 = 8;
pub(in crate::moving) const COUNTER: &str = "adds";

/// The holders of all clients.
#[derive(Default)]
pub(in crate::moving) struct Witness {
    holders: HashMap<String, u32>,
    highest: HashMap<String, Token>,
    pub(in crate::moving) grants: usize,
    longest: Duration,
    /// The highest count that was read, and the number of adds.
    count: i64,
    pub(in crate::moving) adds: i64,
}

impl Witness {
    fn enters(&mut self, key: &str, weight: u32, limit: u32, fence: Option<Token>) {
        let now = self.holders.entry(key.to_owned()).or_default();
        *now += weight;
        assert!(*now <= limit, "{key}: {now} of {limit}");
        if let Some(token) = fence {
            let before = self.highest.insert(key.to_owned(), token);
            assert!(before < Some(token), "{key}: {token:?} after {before:?}");
        }
        self.grants += 1;
    }

    fn leaves(&mut self, key: &str, weight: u32) {
        *self.holders.get_mut(key).expect("it entered") -= weight;
    }
}

pub(in crate::moving) async fn add(coordinator: &Coordinator, witness: &Mutex<Witness>) {
    let before = witness.lock().count;
    let count = coordinator.counter(COUNTER).unwrap().add(1).await.unwrap();
    let mut witness = witness.lock();
    assert!(count > before, "{count} behind {before}");
    witness.count = witness.count.max(count);
    witness.adds += 1;
}

pub(in crate::moving) async fn work(
    coordinator: &Coordinator,
    witness: &Mutex<Witness>,
    seed: u64,
    until: tokio::time::Instant,
) {
    let mut random = StdRng::seed_from_u64(seed);
    while tokio::time::Instant::now() < until {
        let asked = tokio::time::Instant::now();
        let what = random.random_range(0..10);
        let length = random.random_range(Duration::ZERO..HOLD);
        match what {
            0..=5 => {
                let key = format!("m{what}");
                let hold = coordinator.mutex(&*key).unwrap().acquire().await.unwrap();
                witness.lock().enters(&key, 1, 1, Some(hold.token()));
                tokio::time::sleep(length).await;
                assert!(hold.is_held(), "{key}: {:?} {:?}", hold.check(), hold.lost().lost_on());
                witness.lock().leaves(&key, 1);
                hold.release().await.unwrap();
            }
            6 | 7 => {
                let (key, weight) = (format!("s{what}"), random.random_range(1..=2));
                let hold = coordinator.semaphore(&*key, 3).unwrap().acquire(weight).await.unwrap();
                witness.lock().enters(&key, weight, 3, None);
                tokio::time::sleep(length).await;
                assert!(hold.is_held());
                witness.lock().leaves(&key, weight);
                drop(hold);
            }
            8 => {
                let hold = coordinator.rwlock("w").unwrap().read().await.unwrap();
                witness.lock().enters("w", 1, 99, None);
                tokio::time::sleep(length).await;
                witness.lock().leaves("w", 1);
                drop(hold);
            }
            _ => {
                let hold = coordinator.rwlock("w").unwrap().write().await.unwrap();
                // A writer holds alone, so it counts as all readers.
                witness.lock().enters("w", 99, 99, Some(hold.token()));
                tokio::time::sleep(length).await;
                witness.lock().leaves("w", 99);
                hold.release().await.unwrap();
            }
        }
        let mut witness = witness.lock();
        witness.longest = witness.longest.max(asked.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn no_two_clients_hold_during_moves_in_both_directions() {
    for seed in 0..4 {
        let stores = Stores::new();
        let witness = Arc::new(Mutex::new(Witness::default()));
        let until = tokio::time::Instant::now() + Duration::from_secs(120);
        let (mut tasks, mut links) = (tokio::task::JoinSet::new(), Vec::new());
        for number in 0..TASKS {
            let part = stores.participant().await;
            links.push(part.old.clone());
            let witness = Arc::clone(&witness);
            tasks.spawn(async move {
                // Moves the whole `Part`: its sides end with their last handles.
                let part = part;
                work(&part.coordinator, &witness, seed * 100 + number, until).await;
            });
        }
        let mut random = StdRng::seed_from_u64(seed);
        let (mut steps, mut stage, mut way) = (0, Stage::before(0), Way::Forward);
        while tokio::time::Instant::now() < until {
            way = match stage.phase {
                MovePhase::Old => Way::Forward,
                MovePhase::New => Way::Back,
                _ if random.random_bool(0.2) => {
                    if way == Way::Back {
                        Way::Forward
                    } else {
                        Way::Back
                    }
                }
                _ => way,
            };
            // Some participants miss the event of a step, and learn of it by a re-check.
            if random.random_bool(0.0002) {
                links[random.random_range(0..links.len())].drop_next_news(stores.stage());
            }
            match stores.try_step(way).await {
                Some(written) => {
                    (stage, steps) = (written, steps + 1);
                    tokio::time::sleep(Duration::from_millis(random.random_range(0..300))).await;
                }
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            stage = stores.staged().await.map_or(stage, |staged| staged.stage);
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let witness = witness.lock();
        // Requests take no time here. A change of phase adds at most a turn in another queue.
        let (longest, bound) = (witness.longest, HOLD * 2 * u32::try_from(TASKS).unwrap());
        println!("seed {seed}: {} grants, {steps} steps, longest {longest:?} of {bound:?}", witness.grants);
        assert!(longest <= bound, "{longest:?} of {bound:?}");
        assert!(witness.grants > 500 && steps > 50, "{} grants, {steps} steps", witness.grants);
    }
}
