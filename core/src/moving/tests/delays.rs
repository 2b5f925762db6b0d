//! The longest delays that phases add, against `docs/protocol/moving.md`, "What it costs". Memory ends leases
//! exactly, so an expiry takes a TTL.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::driver::{Part, Stores};
use crate::decide::margin;
use crate::decide::moving::{MovePhase, Side, Way};
use crate::error::ErrorKind;
use crate::memory::Link;
use crate::recipes::MutexGuard;

/// The time of a request to either side.
const REQUEST: Duration = Duration::from_millis(20);
/// The requests of a plain acquisition, and the most that a phase adds.
const PLAIN: u32 = 1;
const ADDED: u32 = 5;
/// The additional requests for each step during the acquisition.
const ADDED_BY_A_STEP: u32 = 5;
/// Tokio's timers count whole milliseconds.
const TICK: Duration = Duration::from_millis(1);

const PHASES: [MovePhase; 5] =
    [MovePhase::Old, MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done];

/// The time of the requests, with this number of steps.
fn requests(steps: u32) -> Duration {
    (REQUEST + 2 * TICK) * (PLAIN + ADDED + steps * ADDED_BY_A_STEP)
}

fn stores([old, new]: [u64; 2]) -> Stores {
    let mut stores = Stores::new();
    stores.sides.from.ttl = Duration::from_secs(old);
    stores.sides.to.ttl = Duration::from_secs(new);
    stores
}

impl Stores {
    /// The longest time from a client's last sign until its nodes are gone.
    fn longest_lease(&self) -> Duration {
        self.sides.from.ttl.max(self.sides.to.ttl)
    }

    async fn far(&self) -> Part {
        let part = self.participant().await;
        part.old.delay(REQUEST);
        part.new.delay(REQUEST);
        part
    }
}

impl Part {
    fn link(&self, side: Side) -> &Link {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    async fn holds(&self) -> MutexGuard {
        self.coordinator.mutex("a").unwrap().acquire().await.unwrap()
    }

    /// Acquires in the background, and releases at once. Returns the instant of the admission.
    fn acquires(&self) -> tokio::task::JoinHandle<Instant> {
        let mutex = self.coordinator.mutex("a").unwrap();
        tokio::spawn(async move {
            let hold = mutex.acquire().await.unwrap();
            let held = Instant::now();
            hold.release().await.unwrap();
            held
        })
    }
}

/// Takes each step at several moments of an acquisition, with the lock free or held.
#[tokio::test(start_paused = true)]
async fn a_step_adds_a_few_requests_to_an_acquisition_that_is_under_way() {
    let mut longest = [Duration::ZERO; 2];
    for held in [false, true] {
        for way in [Way::Forward, Way::Back] {
            // *Done* is final.
            let from = if way == Way::Forward { &PHASES[..4] } else { &PHASES[1..4] };
            for half in 0..16 {
                let stores = stores([30, 30]);
                let (one, other) = (stores.far().await, stores.far().await);
                // The move has begun, and all participants know it.
                assert_eq!(stores.try_step(Way::Forward).await, None);
                let mut steps: Vec<MovePhase> = from.to_vec();
                if way == Way::Back {
                    steps.reverse();
                }
                for phase in steps {
                    stores.go(phase).await;
                    stores.settled().await;
                    let hold = if held { Some(other.holds().await) } else { None };
                    let begun = Instant::now();
                    let waiting = one.acquires();
                    sleep(half * REQUEST / 2).await;
                    // The step back waits for the end of a hold on the new side, but the next acquisition
                    // does not.
                    assert!(stores.try_step(way).await.is_some(), "all have acknowledged {phase:?}");
                    let free = match hold {
                        Some(hold) => {
                            sleep(half * REQUEST).await;
                            let free = Instant::now();
                            hold.release().await.unwrap();
                            free
                        }
                        None => begun,
                    };
                    let took = waiting.await.unwrap() - free;
                    assert!(took <= requests(1), "{took:?} from {phase:?} {way:?}, {half}, held: {held}");
                    let longest = &mut longest[usize::from(held)];
                    *longest = took.max(*longest);
                    stores.settled().await;
                }
            }
        }
    }
    println!("at the most {longest:?}, of {:?}", requests(1));
    // Otherwise the test measures nothing: two joins and a read take longer than a plain acquisition.
    assert!(longest.iter().all(|longest| *longest >= 3 * REQUEST), "{longest:?}");
}

/// Its nodes end on both sides together, also during a step, which waits for them too.
#[tokio::test(start_paused = true)]
async fn killed_member_delays_others_by_one_lease_in_any_phase() {
    for ttls in [[6, 9], [9, 6]] {
        for phase in PHASES {
            for steps in [false, true] {
                let stores = stores(ttls);
                let (dead, one) = (stores.far().await, stores.far().await);
                stores.go(phase).await;
                stores.settled().await;
                let hold = dead.holds().await;
                let waiting = one.acquires();
                sleep(Duration::from_secs(5)).await;
                let killed = Instant::now();
                dead.old.cut();
                dead.new.cut();
                if steps && phase != MovePhase::Done {
                    let next = PHASES[PHASES.iter().position(|known| *known == phase).unwrap() + 1];
                    stores.go(next).await;
                }
                let took = waiting.await.unwrap() - killed;
                let most = stores.longest_lease() + requests(1);
                assert!(took <= most, "{took:?} of {most:?} in {phase:?}, {ttls:?}, steps: {steps}");
                // Otherwise the test measures nothing: a lease is renewed at each third of its TTL.
                assert!(took > Duration::from_secs(3), "{took:?} in {phase:?}, {ttls:?}");
                drop(hold);
            }
        }
    }
}

/// The member loses its holds by its own clock, and releases the rest one margin later.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_from_one_side_delays_others_by_one_lease_and_a_margin() {
    for ttls in [[6, 9], [9, 6]] {
        for (phase, side) in PHASES.into_iter().flat_map(|phase| [(phase, Side::Old), (phase, Side::New)]) {
            let stores = stores(ttls);
            let (away, one) = (stores.far().await, stores.far().await);
            stores.go(phase).await;
            stores.settled().await;
            let hold = away.holds().await;
            let waiting = one.acquires();
            sleep(Duration::from_secs(5)).await;
            let cut = Instant::now();
            away.link(side).cut();
            let needed = phase.needs().has(side) || (side == Side::Old && phase.needs_membership());
            if !needed {
                sleep(4 * stores.longest_lease()).await;
                assert!(hold.is_held() && !waiting.is_finished(), "{phase:?} without the {side:?} side");
                let free = Instant::now();
                hold.release().await.unwrap();
                let took = waiting.await.unwrap() - free;
                assert!(took <= requests(0), "{took:?} in {phase:?}");
                continue;
            }
            let took = waiting.await.unwrap() - cut;
            let most = stores.longest_lease() + margin(stores.longest_lease()) + requests(0);
            assert!(took <= most, "{took:?} of {most:?} in {phase:?} without the {side:?} side, {ttls:?}");
            assert!(took > Duration::from_secs(3), "{took:?} in {phase:?} without the {side:?} side");
            assert!(!hold.is_held());
        }
    }
}

/// Without a deadline its acquisition ends a TTL and a request timeout after its turn.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_cut_off_from_the_new_side_delays_others_until_its_own_acquisition_ends() {
    for ttls in [[6, 9], [9, 6]] {
        for phase in [MovePhase::BothByOld, MovePhase::BothByNew] {
            let stores = stores(ttls);
            let (holder, away, one) = (stores.far().await, stores.far().await, stores.far().await);
            stores.go(phase).await;
            stores.settled().await;
            let hold = holder.holds().await;
            let mutex = away.coordinator.mutex("a").unwrap();
            let ahead = tokio::spawn(async move { mutex.acquire().await });
            sleep(Duration::from_secs(1)).await;
            let waiting = one.acquires();
            sleep(Duration::from_secs(1)).await;
            away.new.cut();
            let free = Instant::now();
            hold.release().await.unwrap();
            let took = waiting.await.unwrap() - free;
            let most = stores.sides.to.ttl + stores.sides.to.request_timeout + requests(0);
            assert!(took <= most, "{took:?} of {most:?} in {phase:?}, {ttls:?}");
            assert!(took > requests(0), "{took:?}: it was ahead");
            let error = ahead.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    }
}
