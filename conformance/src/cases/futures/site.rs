use std::time::Duration;

use latchwork_core::backend::decide::MAX_TTL;
use latchwork_core::recipes::{
    Barrier, CountDownLatch, Counter, DoubleBarrier, Election, Group, IdGenerator, MultiLock, Mutex,
    QuorumLock, RwLock, Semaphore, SharedValue,
};
use latchwork_core::{Config, Owner};
use tokio::sync::OnceCell;

use crate::adapter::Adapter;
use crate::bounds::LONG_TTL;
use crate::cases::quorum::Quorum;
use crate::context::Context;
use crate::exclusive::Lock;
use crate::testbed::Client;

pub(crate) struct Site<'a> {
    pub(super) context: &'a Context,
    pub(crate) client: Client,
    pub(super) owner: Owner,
    pub(super) key: String,
    pub(crate) own: Lock,
    pub(crate) theirs: Lock,
    pub(super) other: Client,
    quorum: OnceCell<Quorum>,
}

impl<'a> Site<'a> {
    pub(crate) async fn open(context: &'a Context, adapter: Adapter, key: String) -> Self {
        let [client, other] = context.clients().await;
        let lock = |client: &Client| adapter.lock(&client.coordinator, &key, None).expect("a good key");
        let (own, theirs) = (lock(&client), lock(&other));
        let quorum = OnceCell::new();
        Self { context, client, owner: Owner::new("one"), key, own, theirs, other, quorum }
    }

    pub(super) fn multi(&self) -> MultiLock {
        MultiLock::new([self.mutex()]).expect("a member")
    }

    /// While it waits, it holds the other key, which is first.
    pub(super) fn multi_of_two(&self) -> MultiLock {
        let first = self.client.coordinator.mutex("0").expect("a good key");
        MultiLock::new([self.mutex(), first]).expect("good members")
    }

    pub(super) fn quorum_of_one(&self) -> QuorumLock {
        QuorumLock::new(&self.key, [self.client.coordinator.clone()], MAX_TTL).expect("a member")
    }

    /// With two members it holds one while it waits for the other.
    pub(super) async fn quorum_of(&self, members: usize) -> QuorumLock {
        let open = async || {
            let quorum = Quorum::open(self.context, LONG_TTL).await;
            if self.context.testbed.is_paused() {
                quorum.clients.iter().for_each(|client| client.link.delay(Duration::from_millis(20)));
            }
            quorum
        };
        let lock = self.quorum.get_or_init(open).await.lock_of(members, &self.key);
        lock.initialize().await.expect("initialized");
        lock
    }

    pub(crate) async fn clear(&self) {
        self.value().delete().await.expect("deleted");
        self.counter().delete().await.expect("deleted");
        self.ids().delete().await.expect("deleted");
        self.latch().delete().await.expect("deleted");
        if let Some(quorum) = self.quorum.get() {
            quorum.clear().await;
        }
    }

    /// Not over a link of the fixture.
    pub(super) fn config(&self) -> Config {
        self.context.fixture.process_config().unwrap_or_else(|| self.context.fixture.config())
    }
}

macro_rules! handles {
    ($($name:ident -> $handle:ident: $method:ident($($count:literal)?);)+) => {
        impl Site<'_> {
            $(pub(super) fn $name(&self) -> $handle {
                self.client.coordinator.$method(self.key.as_str() $(, $count)?).expect("a good key")
            })+
        }
    };
}

handles! {
    mutex -> Mutex: mutex();
    rwlock -> RwLock: rwlock();
    semaphore -> Semaphore: semaphore(1);
    value -> SharedValue: shared_value();
    election -> Election: election();
    group -> Group: group();
    barrier -> Barrier: barrier(1);
    double_barrier -> DoubleBarrier: double_barrier(1);
    counter -> Counter: counter();
    ids -> IdGenerator: id_generator();
    latch -> CountDownLatch: count_down_latch(1);
}
