use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Plant, fails, planted_on};
use async_trait::async_trait;
use latchwork_core::backend::{Backend, Leave, Node};
use latchwork_core::memory::Memory;
use latchwork_core::recipes::Mutex;
use latchwork_core::{
    Capabilities, Clock, Config, Connector, Coordinator, Error, ErrorKind, Move, MoveBlocker, MoveConfig,
    Result, connect,
};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a replica that confirms.
#[derive(Debug, Default)]
struct Replicated {
    asked: AtomicU32,
    refuses: bool,
    has_no_copies: bool,
}

#[async_trait]
impl Plant for Replicated {
    fn capabilities(&self, real: Capabilities) -> Capabilities {
        Capabilities { confirms_on_replicas: true, held_writes: !self.has_no_copies, ..real }
    }

    async fn leave(&self, node: &dyn Node) -> Result<Leave> {
        match self.refuses {
            true => Err(Error::forbidden("removing", "planned")),
            false => node.leave().await,
        }
    }

    async fn confirm(&self, _node: &dyn Node, replicas: u32, _within: Duration) -> Result<()> {
        self.asked.fetch_add(replicas, Ordering::Relaxed);
        Ok(())
    }
}

#[derive(Debug)]
struct Named {
    name: &'static str,
    store: Memory,
    // For participants, and for operators if it says so.
    plant: Option<Arc<Replicated>>,
}

#[async_trait]
impl Connector for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn options(&self) -> &'static [&'static str] {
        if self.name == "redis" { &["min_replicas"] } else { &[] }
    }

    fn clock(&self, _config: &Config) -> Clock {
        self.store.clock().clone()
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let (client, _) = self.store.client(config)?;
        Ok(match &self.plant {
            Some(plant) => planted_on(client, plant),
            None => client,
        })
    }
}

/// The plant affects the side that is named redis.
struct Moved {
    part: Coordinator,
    operator: Move,
    plant: Arc<Replicated>,
}

impl Moved {
    async fn between(from: &str, to: &str, plant: Replicated) -> Self {
        let (clock, plant) = (Clock::tokio(), Arc::new(plant));
        let (redis, memory) = (Memory::new(clock.clone()), Memory::new(clock));
        let connectors = |plant: Option<&Arc<Replicated>>| -> [Arc<dyn Connector>; 2] {
            let redis = Named { name: "redis", store: redis.clone(), plant: plant.cloned() };
            [Arc::new(redis), Arc::new(Named { name: "memory", store: memory.clone(), plant: None })]
        };
        let [from, to] = [from, to].map(|url| Config::from_url(url).expect("a good URL"));
        let sides = MoveConfig::new(from, to, "m");
        let part =
            connect(&connectors(Some(&plant)), &Config::of_move(sides.clone())).await.expect("a member");
        let of_operator = Some(&plant).filter(|plant| plant.has_no_copies);
        let operator = Move::connect(&connectors(of_operator), &sides).await.expect("connected");
        Self { part, operator, plant }
    }

    fn mutex(&self, key: &str) -> Mutex {
        self.part.mutex(key).expect("a good key")
    }

    async fn steps(&self, to: &str) {
        let stepped = timeout(PATIENCE, self.operator.advance(|_| {})).await;
        assert_eq!(stepped.unwrap_or_else(|_| panic!("no step to {to}")).expect("a step").as_str(), to);
        sleep(Duration::from_secs(1)).await;
    }

    /// Returns the number of replicas that were asked since the last call.
    fn asked(&self) -> u32 {
        self.plant.asked.swap(0, Ordering::Relaxed)
    }
}

const REDIS: &str = "redis://old?min_replicas=1";
const MEMORY: &str = "memory://new";

#[tokio::test(start_paused = true)]
async fn replicas_confirm_on_the_side_whose_url_asks_for_it_alone() {
    let moved = Moved::between(REDIS, MEMORY, Replicated::default()).await;
    let by_url = moved.mutex("url").acquire().await.expect("free");
    assert_eq!(moved.asked(), 1);
    assert!(moved.mutex("a").try_acquire().min_replicas(0).await.expect("asked").is_some());
    assert_eq!(moved.asked(), 0, "the option of the acquisition decides");
    let by_hand = moved.mutex("hand").acquire().min_replicas(2).await.expect("free");
    assert_eq!(moved.asked(), 2);

    for (phase, asked) in [("both-by-old", 1), ("both-by-new", 1), ("new", 0), ("done", 0)] {
        moved.steps(phase).await;
        assert!(moved.mutex(phase).acquire().await.expect("free").is_held(), "{phase}");
        assert_eq!(moved.asked(), asked, "{phase}");
        let refused = moved.mutex(phase).try_acquire().min_replicas(1).await.expect_err("one side has none");
        assert_eq!(refused.kind(), ErrorKind::Unsupported { capability: "confirms_on_replicas" }, "{phase}");
        assert!(by_url.is_held() && by_hand.is_held(), "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_of_the_new_side_confirm_as_its_url_says() {
    let moved = Moved::between(MEMORY, REDIS, Replicated::default()).await;
    let held = moved.mutex("held").acquire().await.expect("free");
    assert_eq!(moved.asked(), 0);
    moved.steps("both-by-old").await;
    assert_eq!(moved.asked(), 1, "of the hold's node on that side");
    for phase in ["both-by-new", "new", "done"] {
        moved.steps(phase).await;
        assert!(moved.mutex(phase).acquire().await.expect("free").is_held(), "{phase}");
        assert_eq!(moved.asked(), 1, "{phase}");
    }
    assert!(held.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_side_refuses_says_so_and_holds_no_step_up() {
    let plant = Replicated { refuses: true, ..Replicated::default() };
    let moved = Moved::between(MEMORY, REDIS, plant).await;
    moved.steps("both-by-old").await;
    let hold = moved.mutex("a").acquire().await.expect("free");
    let error = hold.release().await.expect_err("its node exists on the new side");
    let said = error.to_string();
    assert!(error.kind() == ErrorKind::OutcomeUnknown && said.contains("forbidden: removing"), "{said}");
    moved.steps("both-by-new").await;
}

/// After a freeze the values could be used on neither side.
#[tokio::test(start_paused = true)]
async fn values_that_the_other_side_cannot_have_are_named_before_they_are_frozen() {
    let plant = Replicated { has_no_copies: true, ..Replicated::default() };
    let moved = Moved::between("memory://old", "redis://new", plant).await;
    moved.steps("both-by-old").await;
    let counter = moved.part.counter("visits").expect("a good key");
    assert!(moved.operator.plan().await.expect("read").blockers.is_empty(), "no blocker exists yet");
    counter.add(1).await.expect("it is used on the old side");
    let plan = moved.operator.plan().await.expect("read");
    let stays = matches!(&plan.blockers[..], [MoveBlocker::ValuesStay { lacks: "held_writes", .. }]);
    assert!(stays, "{:?}", plan.blockers);
    let advanced = timeout(PATIENCE, moved.operator.advance(|_| {})).await.expect("it ends");
    let error = fails(advanced, ErrorKind::Conflict, "they would be usable on neither side");
    assert!(error.to_string().contains("held_writes: counter \"visits\""), "{error}");
    assert_eq!(counter.add(1).await.expect("it is used still"), 2);
    assert!(counter.delete().await.expect("deleted"));
    moved.steps("both-by-new").await;
    counter.add(1).await.expect("it is used on the new side");
    let back = timeout(PATIENCE, moved.operator.step_back(|_| {})).await.expect("it ends");
    assert_eq!(back.expect_err("they cannot go back").kind(), ErrorKind::Conflict);
    assert_eq!(counter.add(1).await.expect("it is used still"), 2);
    moved.steps("new").await;
}
