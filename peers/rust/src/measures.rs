//! M1, M2 and M3 of one peer. The same logic is also written in Java, Go and Python, to measure each library
//! in its own language.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::Result;
use crate::peer::Peer;
use crate::report::{print, seconds, setting, timed};

/// Plays the measures in the environment. An error is printed as a line too.
pub async fn all(peer: &Arc<dyn Peer>) {
    let measures = setting("BENCH_MEASURES", "M1,M2,M3");
    let failed = |measure: &str, error| print(&**peer, measure, "", "", json!({"error": format!("{error}")}));
    for measure in measures.split(',') {
        match measure {
            "M1" => uncontended(peer).await.unwrap_or_else(|error| failed("M1", error)),
            "M2" => throughput(peer).await.unwrap_or_else(|error| failed("M2", error)),
            "M3" => {
                for contenders in
                    setting("BENCH_W", "2,16,128").split(',').filter_map(|count| count.parse().ok())
                {
                    let played = hand_offs(peer, contenders).await;
                    played.unwrap_or_else(|error| failed(&format!("M3 W={contenders}"), error));
                }
            }
            // No crate of this program has the other recipes.
            _ => {}
        }
    }
}

fn time() -> Duration {
    seconds("BENCH_SECS", "2")
}

fn warm() -> Duration {
    seconds("BENCH_WARM", "0.5")
}

/// Returns a key that no other run has.
fn fresh_key(measure: &str) -> String {
    format!("{measure}-{:08x}", rand::random::<u32>())
}

async fn uncontended(peer: &Arc<dyn Peer>) -> Result<()> {
    let key = fresh_key("m1");
    peer.prepare(std::slice::from_ref(&key)).await?;
    let session = peer.open().await?;
    let mut times = Vec::new();
    let (started, warm) = (Instant::now(), warm());
    while started.elapsed() < warm + time() {
        let began = Instant::now();
        let held = session.lock(&key).await?;
        session.unlock(held).await?;
        if started.elapsed() > warm {
            times.push(micros(began.elapsed()));
        }
    }
    print(&**peer, "M1", "1 task", "us", timed(times));
    Ok(())
}

async fn throughput(peer: &Arc<dyn Peer>) -> Result<()> {
    const TASKS: usize = 64;
    let key = fresh_key("m2");
    let keys: Vec<_> = (0..TASKS).map(|task| format!("{key}-{task}")).collect();
    peer.prepare(&keys).await?;
    let session = peer.open().await?;
    let (pairs, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks = keys.into_iter().map(|key| {
        let (session, pairs, over) = (Arc::clone(&session), Arc::clone(&pairs), Arc::clone(&over));
        tokio::spawn(async move {
            while !over.load(SeqCst) {
                let held = session.lock(&key).await?;
                session.unlock(held).await?;
                pairs.fetch_add(1, SeqCst);
            }
            Result::Ok(())
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tokio::time::sleep(warm()).await;
    let (before, started) = (pairs.load(SeqCst), Instant::now());
    tokio::time::sleep(time()).await;
    let (n, took) = (pairs.load(SeqCst) - before, started.elapsed());
    over.store(true, SeqCst);
    let error = first_error(tasks).await;
    let figures = json!({"value": n as f64 / took.as_secs_f64(), "n": n});
    print(&**peer, "M2", &format!("{TASKS} tasks"), "pairs/s", with_error(figures, error));
    Ok(())
}

/// The shared state of the contenders of one key. All are in one process, so there is one clock.
struct Room {
    clock: Instant,
    recorded: AtomicBool,
    over: AtomicBool,
    inside: AtomicUsize,
    overlaps: AtomicU64,
    last_holder: AtomicI64,
    released_at: AtomicI64,
    self_regrants: AtomicU64,
    by_contender: Vec<AtomicU64>,
    /// Hand-offs and waits, in microseconds.
    handoffs: Mutex<Vec<f64>>,
    waits: Mutex<Vec<f64>>,
}

impl Room {
    fn new(contenders: usize) -> Self {
        Self {
            clock: Instant::now(),
            recorded: AtomicBool::new(false),
            over: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            overlaps: AtomicU64::new(0),
            last_holder: AtomicI64::new(-1),
            released_at: AtomicI64::new(0),
            self_regrants: AtomicU64::new(0),
            by_contender: (0..contenders).map(|_| AtomicU64::new(0)).collect(),
            handoffs: Mutex::default(),
            waits: Mutex::default(),
        }
    }

    fn now(&self) -> i64 {
        i64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    /// Records that a contender has acquired; it asked at `asked`.
    fn enter(&self, contender: usize, asked: i64) {
        let now = self.now();
        if self.inside.fetch_add(1, SeqCst) != 0 {
            self.overlaps.fetch_add(1, SeqCst);
        }
        let me = contender as i64;
        let last = self.last_holder.swap(me, SeqCst);
        if !self.recorded.load(SeqCst) || self.over.load(SeqCst) {
            return;
        }
        self.by_contender[contender].fetch_add(1, SeqCst);
        push(&self.waits, now - asked);
        if last == me {
            self.self_regrants.fetch_add(1, SeqCst);
        } else if last >= 0 {
            push(&self.handoffs, now - self.released_at.load(SeqCst));
        }
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
        self.released_at.store(self.now(), SeqCst);
    }
}

fn push(times: &Mutex<Vec<f64>>, nanos: i64) {
    times.lock().unwrap_or_else(PoisonError::into_inner).push(nanos as f64 / 1e3);
}

async fn hand_offs(peer: &Arc<dyn Peer>, contenders: usize) -> Result<()> {
    let key = fresh_key("m3");
    peer.prepare(std::slice::from_ref(&key)).await?;
    let mut sessions = Vec::new();
    for _ in 0..contenders {
        sessions.push(peer.open().await?);
    }
    let room = Arc::new(Room::new(contenders));
    let tasks = sessions.into_iter().enumerate().map(|(contender, session)| {
        let (room, key) = (Arc::clone(&room), key.clone());
        tokio::spawn(async move {
            while !room.over.load(SeqCst) {
                let asked = room.now();
                let held = session.lock_contended(&key).await?;
                room.enter(contender, asked);
                room.leave();
                session.unlock_contended(held).await?;
            }
            Result::Ok(())
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tokio::time::sleep(warm()).await;
    room.recorded.store(true, SeqCst);
    let started = Instant::now();
    tokio::time::sleep(time()).await;
    room.over.store(true, SeqCst);
    let took = started.elapsed();
    let error = first_error(tasks).await;
    report(&**peer, &room, took, error);
    Ok(())
}

fn report(peer: &dyn Peer, room: &Room, took: Duration, error: Option<String>) {
    let grants: Vec<_> = room.by_contender.iter().map(|grants| grants.load(SeqCst)).collect();
    let n: u64 = grants.iter().sum();
    let (least, most) =
        (grants.iter().min().copied().unwrap_or(0), grants.iter().max().copied().unwrap_or(0));
    let param = format!("W={}", grants.len());
    let taken =
        |times: &Mutex<Vec<f64>>| std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    let figures = json!({
        "value": n as f64 / took.as_secs_f64(), "n": n,
        "self_regrants": room.self_regrants.load(SeqCst), "overlaps": room.overlaps.load(SeqCst),
    });
    print(peer, "M3_grants", &param, "grants/s", with_error(figures, error));
    print(peer, "M3_handoff", &param, "us", timed(taken(&room.handoffs)));
    print(peer, "M3_wait", &param, "us", timed(taken(&room.waits)));
    let fair = json!({
        "value": (least > 0).then(|| most as f64 / least as f64), "min": least, "max": most,
        "starved": grants.iter().filter(|grants| **grants == 0).count(), "n": n,
    });
    print(peer, "M3_fair", &param, "max/min grants", fair);
}

/// Waits until all tasks have ended. Returns the first error.
async fn first_error(tasks: Vec<JoinHandle<Result<()>>>) -> Option<String> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let ended = tokio::time::timeout(PATIENCE, futures::future::join_all(tasks)).await;
    let Ok(ended) = ended else {
        return Some(format!("a contender has not come through {PATIENCE:?} after the end"));
    };
    ended.into_iter().find_map(|ended| match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    })
}

fn with_error(mut figures: Value, error: Option<String>) -> Value {
    if let Some(error) = error {
        figures["error"] = error.into();
    }
    figures
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
