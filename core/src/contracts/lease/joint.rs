use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::select_all;
use parking_lot::RwLock;

use super::state::LeaseState;
use crate::clock::{Clock, Moment};

pub(crate) type StateChange<'a> = Pin<Box<dyn Future<Output = LeaseState> + Send + Sync + 'a>>;

pub(crate) trait Part: Send + Sync {
    fn state(&self) -> LeaseState;
    /// The time without another renewal, by its clock at this call.
    fn left(&self) -> Duration;
    fn ttl(&self) -> Duration;
    fn changed(&self, seen: LeaseState) -> StateChange<'_>;
    fn place(&self) -> String;
}

/// The first loss of a part stays the reason.
#[derive(Default)]
pub(super) struct Joint {
    parts: RwLock<Vec<Arc<dyn Part>>>,
    lost_on: OnceLock<String>,
}

impl Joint {
    pub(super) fn new(parts: Vec<Arc<dyn Part>>) -> Self {
        Self { parts: RwLock::new(parts), lost_on: OnceLock::new() }
    }

    pub(super) fn parts(&self) -> Vec<Arc<dyn Part>> {
        self.parts.read().clone()
    }

    pub(super) fn set_parts(&self, parts: Vec<Arc<dyn Part>>) {
        *self.parts.write() = parts;
    }

    pub(super) fn state(&self) -> LeaseState {
        let mut worst = LeaseState::Live;
        for part in self.parts.read().iter() {
            match part.state() {
                lost @ LeaseState::Lost(_) => {
                    let _ = self.lost_on.set(part.place());
                    return lost;
                }
                LeaseState::Suspended => worst = LeaseState::Suspended,
                LeaseState::Live => {}
            }
        }
        worst
    }

    /// The parts may have other clocks.
    pub(super) fn deadline(&self, clock: &Clock) -> Moment {
        // Read first, so that the result is never later than the deadline of a part.
        let now = clock.now();
        let left = self.parts.read().iter().map(|part| part.left()).min();
        left.map_or(Moment::NEVER, |left| now + left)
    }

    pub(super) fn ttl(&self) -> Option<Duration> {
        self.parts.read().iter().map(|part| part.ttl()).max()
    }

    pub(super) fn lost_on(&self) -> Option<&str> {
        self.lost_on.get().map(String::as_str)
    }
}

pub(super) async fn any_changed(before: &[(Arc<dyn Part>, LeaseState)]) {
    match before {
        [] => std::future::pending().await,
        before => {
            select_all(before.iter().map(|(part, seen)| part.changed(*seen))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::LeaseWriter;
    use super::*;
    use crate::error::LostReason;

    const TTL: Duration = Duration::from_secs(10);

    fn part(clock: &Clock) -> LeaseWriter {
        LeaseWriter::new(clock.clone(), TTL, clock.now())
    }

    fn joint(clock: &Clock, parts: &[&LeaseWriter]) -> LeaseWriter {
        let parts = parts.iter().map(|part| Arc::new(part.lease().clone()) as Arc<dyn Part>).collect();
        LeaseWriter::joint(clock.clone(), parts)
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_its_first_part_and_stays_ended() {
        let (clock, other) = (Clock::tokio(), Clock::tokio());
        let (old, new) = (part(&clock), part(&other));
        let both = joint(&clock, &[&old, &new]);
        let mut lost = Box::pin(both.until_lost());
        assert!((&mut lost).now_or_never().is_none());
        // The new side's clock has slept, and the old side's has not.
        other.jump(TTL / 2);
        assert_eq!(both.state(), LeaseState::Live);
        assert!(both.deadline() <= clock.now() + TTL / 2);
        other.jump(TTL / 2);
        assert_eq!(both.lost(), Some(LostReason::Expired));
        both.set_parts(vec![Arc::new(old.lease().clone())]);
        assert_eq!((both.lost(), lost.await), (Some(LostReason::Expired), LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_follows_the_parts_as_they_change() {
        let clock = Clock::tokio();
        let (old, new) = (part(&clock), part(&clock));
        let both = joint(&clock, &[&old]);
        let mut waiting = Box::pin(both.changed(LeaseState::Live));
        assert!((&mut waiting).now_or_never().is_none());
        both.set_parts(vec![Arc::new(new.lease().clone())]);
        old.end(LostReason::Revoked);
        assert!((&mut waiting).now_or_never().is_none(), "it rests on the other now");
        new.suspend();
        assert_eq!(waiting.await, LeaseState::Suspended);
        assert_eq!(both.until_lost().await, LostReason::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_is_taken_out_after_its_loss_has_ended_it() {
        let clock = Clock::tokio();
        let (old, new) = (part(&clock), part(&clock));
        let both = joint(&clock, &[&old, &new]);
        old.end(LostReason::Forgotten);
        both.set_parts(vec![Arc::new(new.lease().clone())]);
        assert_eq!(both.lost(), Some(LostReason::Forgotten));
    }
}
