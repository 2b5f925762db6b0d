use std::time::Duration;

use super::driver::{Part, Stores};
use crate::contracts::{EntryPage, KeysWith, QueueEntry};
use crate::decide::moving::MovePhase;
use crate::error::ErrorKind;
use crate::recipes::{Mutex, MutexGuard};
use crate::{Config, Coordinator};

const SOON: Duration = Duration::from_secs(1);

fn mutex(of: &Part) -> Mutex {
    of.coordinator.mutex("a").expect("a good key")
}

async fn listed(of: &Part, most: usize) -> Vec<QueueEntry> {
    let (queue, mut entries) = (mutex(of), Vec::<QueueEntry>::new());
    let mut after = None;
    loop {
        let page = queue.queue().page(after.as_deref(), most).await.expect("listed");
        entries.extend(page.items);
        assert!(entries.is_sorted_by_key(|entry| entry.sequence), "{entries:?}");
        after = page.next;
        if after.is_none() {
            return entries;
        }
    }
}

async fn shown(of: &Part) -> Vec<(String, bool)> {
    let whole = listed(of, 100).await;
    for most in 1..4 {
        let paged: Vec<_> = listed(of, most).await.into_iter().map(|entry| entry.sequence).collect();
        assert_eq!(paged, whole.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), "by {most}");
    }
    whole.into_iter().map(|entry| (entry.label, entry.admitted)).collect()
}

async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(60 * SOON, what).await.expect("it comes")
}

fn holds(label: &str) -> (String, bool) {
    (label.to_owned(), true)
}

fn waits(label: &str) -> (String, bool) {
    (label.to_owned(), false)
}

impl Stores {
    async fn reach(&self, phase: MovePhase) {
        soon(self.go(phase)).await;
        soon(self.settled()).await;
    }

    async fn labelled(&self, label: &str) -> Part {
        let part = self.participant_with(|config| config.label = Some(label.to_owned())).await;
        assert_eq!(part.coordinator.label(), label);
        part
    }

    /// A hold on the new side alone, like a dead client's.
    async fn ahead_on_new(&self) -> (Coordinator, MutexGuard) {
        let config = Config { label: Some("dead".to_owned()), ..self.sides.to.clone() };
        let (client, _) = self.new.connect(&config).expect("memory");
        let hold = client.mutex("a").expect("a good key").acquire().await.expect("free");
        (client, hold)
    }
}

#[tokio::test(start_paused = true)]
async fn each_client_is_listed_once_in_each_phase() {
    let stores = Stores::new();
    let (one, two, three) =
        (stores.labelled("one").await, stores.labelled("two").await, stores.labelled("three").await);
    let hold = mutex(&one).acquire().await.expect("free");
    let waiting = [&two, &three].map(|part| {
        let queue = mutex(part);
        tokio::spawn(async move { queue.acquire().await })
    });
    tokio::time::sleep(SOON).await;
    let all = [holds("one"), waits("two"), waits("three")];
    for phase in [MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New] {
        stores.reach(phase).await;
        assert_eq!(shown(&three).await, all, "{phase}");
    }
    hold.release().await.expect("released");
    tokio::time::sleep(SOON).await;
    let both = [holds("two"), waits("three")];
    assert_eq!(shown(&one).await, both, "the holder has only the new side, and the next client both");
    soon(stores.go(MovePhase::BothByNew)).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(shown(&one).await, both, "on the way back");
    let [two, three] = waiting;
    let hold = soon(two).await.expect("runs").expect("admitted");
    hold.release().await.expect("released");
    let hold = soon(three).await.expect("runs").expect("admitted");
    for phase in [MovePhase::BothByOld, MovePhase::Old] {
        soon(stores.reach(phase)).await;
        assert_eq!(shown(&one).await, [holds("three")], "{phase}");
    }
    drop(hold);
}

/// The old side admits the client, which cannot reach the new side. All others wait for it.
#[tokio::test(start_paused = true)]
async fn client_on_the_way_to_the_new_side_is_listed_and_removable() {
    for phase in [MovePhase::BothByOld, MovePhase::BothByNew] {
        let stores = Stores::new();
        let (one, two) = (stores.labelled("one").await, stores.labelled("two").await);
        stores.reach(MovePhase::BothByOld).await;
        let hold = mutex(&two).acquire().await.expect("free");
        let queue = mutex(&one);
        let waiting = tokio::spawn(async move { queue.acquire().within(Duration::from_secs(600)).await });
        tokio::time::sleep(SOON).await;
        stores.reach(phase).await;
        one.new.cut();
        hold.release().await.expect("released");
        tokio::time::sleep(SOON).await;
        // While the old side gives the tokens, it is listed there.
        let expected = if phase == MovePhase::BothByOld { holds("one") } else { waits("one") };
        assert_eq!(shown(&two).await, [expected], "{phase}");
        let number = listed(&two, 10).await[0].sequence;
        assert!(mutex(&two).force_release(number).await.expect("removed"), "{phase}");
        assert!(!mutex(&two).force_release(number).await.expect("answered"), "{phase}");
        let error = waiting.await.expect("runs").expect_err("removed");
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{phase}: {error}");
        let next = mutex(&two).acquire().within(Duration::from_secs(60)).await.expect("free");
        assert!(next.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn blocker_only_on_the_new_side_is_listed_and_removable() {
    let stores = Stores::new();
    let one = stores.labelled("one").await;
    stores.reach(MovePhase::BothByOld).await;
    let (_client, dead) = stores.ahead_on_new().await;
    let queue = mutex(&one);
    let waiting = tokio::spawn(async move { queue.acquire().await });
    tokio::time::sleep(SOON).await;
    assert_eq!(shown(&one).await, [holds("one"), waits("dead")]);
    assert!(!waiting.is_finished());
    let number = listed(&one, 10).await[1].sequence;
    assert!(mutex(&one).force_release(number).await.expect("removed"));
    let hold = soon(waiting).await.expect("runs").expect("admitted");
    assert!(hold.is_held() && !dead.is_held());
    hold.release().await.expect("released");
    assert_eq!(shown(&one).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_number_from_before_a_switch_reaches_nothing() {
    let stores = Stores::new();
    let (one, two) = (stores.labelled("one").await, stores.labelled("two").await);
    let hold = mutex(&one).acquire().await.expect("free");
    let queue = mutex(&two);
    let waiting = tokio::spawn(async move { queue.acquire().await });
    stores.go(MovePhase::BothByOld).await;
    tokio::time::sleep(SOON).await;
    let before = listed(&one, 10).await;
    stores.reach(MovePhase::BothByNew).await;
    for entry in before {
        assert!(!mutex(&one).force_release(entry.sequence).await.expect("answered"), "{entry:?}");
    }
    assert!(hold.is_held() && !waiting.is_finished());
    assert_eq!(shown(&one).await, [holds("one"), waits("two")]);
}

#[tokio::test(start_paused = true)]
async fn queue_with_waiters_only_on_the_other_side_is_listed() {
    let stores = Stores::new();
    let (one, two) = (stores.labelled("one").await, stores.labelled("two").await);
    stores.reach(MovePhase::BothByOld).await;
    let on_both = two.coordinator.mutex("b").expect("a good key").acquire().await.expect("free");
    stores.reach(MovePhase::BothByNew).await;
    one.new.cut();
    let queue = mutex(&one);
    let waiting = tokio::spawn(async move { queue.acquire().within(Duration::from_secs(600)).await });
    tokio::time::sleep(SOON).await;
    let backend = two.coordinator.backend();
    let of =
        crate::QueuePrefix::new(&stores.sides.from.namespace, crate::Kind::Mutex, "").expect("a good prefix");
    let (mut after, mut keys) = (None, std::collections::BTreeSet::new());
    loop {
        let page = backend.list_keys(KeysWith::Nodes, &of, after.as_deref(), 1).await.expect("listed");
        keys.extend(page.items.iter().map(|key| key.address.name().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    let error =
        backend.list_keys(KeysWith::Nodes, &of, Some("nowhere"), 1).await.expect_err("no page ended there");
    assert_eq!(error.argument(), Some("after"));
    waiting.abort();
    drop(on_both);
}

/// The leader and the next candidate are on different sides.
#[tokio::test(start_paused = true)]
async fn watch_reports_both_sides_and_the_token_switch() {
    let stores = Stores::new();
    let (one, two) = (stores.labelled("one").await, stores.labelled("two").await);
    let queue = one.coordinator.election("e").expect("a good key").address().clone();
    let mut watch = one.coordinator.backend().watch_queue(&queue);
    // The watch answers once when it is set, and is then silent.
    let mut news = async || tokio::time::timeout(SOON, watch.changed()).await.is_ok();
    while news().await {}
    stores.go(MovePhase::BothByOld).await;
    assert!(news().await, "it watches the new side too");
    while news().await {}
    stores.go(MovePhase::BothByNew).await;
    assert!(news().await, "the tokens are of the other side");
    while news().await {}
    let leads = two.coordinator.election("e").expect("a good key").campaign(b"").await.expect("free");
    assert!(news().await);
    while news().await {}
    let candidate = one.coordinator.election("e").expect("a good key");
    let waiting = tokio::spawn(async move { candidate.campaign(b"").await });
    assert!(news().await, "it waits on the old side");
    while news().await {}
    let page = one.coordinator.backend().list(&queue, EntryPage::new(0, 10)).await.expect("listed");
    assert_eq!(page.iter().map(|entry| entry.admitted).collect::<Vec<_>>(), [true, false]);
    drop(leads);
    assert!(news().await);
    drop(waiting.await.expect("runs").expect("it leads"));
}
