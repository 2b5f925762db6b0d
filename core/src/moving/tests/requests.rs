use super::driver::{Part, Stores};
use crate::contracts::Limit;
use crate::decide::moving::MovePhase;

const PLAIN: u64 = 2;

impl Part {
    fn requests(&self) -> [u64; 2] {
        [self.old.requests(), self.new.requests()]
    }
}

async fn asks(part: &Part, acquire_and_release: impl AsyncFn()) -> [u64; 2] {
    // The first acquisition may need additional requests.
    acquire_and_release().await;
    let before = part.requests();
    acquire_and_release().await;
    let after = part.requests();
    [after[0] - before[0], after[1] - before[1]]
}

#[tokio::test(start_paused = true)]
async fn only_both_phases_cost_more_requests_than_a_plain_client() {
    let stores = Stores::new();
    let part = stores.participant().await;
    for (phase, mutexes, stored) in [
        (MovePhase::Old, [PLAIN, 0], [PLAIN, 0]),
        // In *both*, each join also reads the limit, which only the other side may have.
        (MovePhase::BothByOld, [PLAIN + 1, PLAIN], [PLAIN + 2, PLAIN + 1]),
        (MovePhase::BothByNew, [PLAIN + 1, PLAIN], [PLAIN + 2, PLAIN + 1]),
        (MovePhase::New, [0, PLAIN], [0, PLAIN]),
        (MovePhase::Done, [0, PLAIN], [0, PLAIN]),
    ] {
        stores.go(phase).await;
        stores.settled().await;
        let mutex = part.coordinator.mutex("a").unwrap();
        let takes = async || mutex.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(asks(&part, takes).await, mutexes, "a mutex in {phase:?}");
        let permits = part.coordinator.semaphore("s", 3).unwrap();
        let takes = async || permits.acquire(1).await.unwrap().release().await.unwrap();
        assert_eq!(asks(&part, takes).await, mutexes, "a semaphore in {phase:?}");
        let permits = part.coordinator.semaphore("t", Limit::UnlessStored(3)).unwrap();
        let takes = async || permits.acquire(1).await.unwrap().release().await.unwrap();
        assert_eq!(asks(&part, takes).await, stored, "a semaphore by its stored limit in {phase:?}");
    }
}
