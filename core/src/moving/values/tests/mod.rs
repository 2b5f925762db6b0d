//! Values that move there and back on memory, under traffic and faults.

mod copying;
mod operator;
mod participant;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use super::mirror::Place;
use crate::address::{Address, Kind, Namespace};
use crate::clock::Clock;
use crate::config::Config;
use crate::contracts::{Backend, Join, Joined, Limit, Node, NodeId, Patience};
use crate::decide::Claim;
use crate::decide::moving::Side;
use crate::decide::moving::evidence::MoveId;
use crate::decide::moving::values::WholeStage;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Link, Memory};
use crate::moving::place::MovePlace;
use crate::moving::staged::Staged;

/// The fault of a control run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// MIGRATE-VALUES-ACK-WAITS: a participant acknowledges a stage as soon as it has read it.
    AcknowledgesAtOnce,
    /// MIGRATE-VALUES-LIVE-MEMBER: a participant always counts on its membership.
    CountsAnyAnswer,
    /// MIGRATE-VALUES-FREEZE: during the copy, a participant uses values where they were.
    FreezesNothing,
    /// MIGRATE-VALUES-VERIFY, MIGRATE-VALUES-MIRROR: an operator's writes never arrive.
    WritesNothing,
}

const TTL: Duration = Duration::from_secs(4);

#[derive(Clone)]
struct World {
    old: Memory,
    new: Memory,
}

struct Both {
    old: (Arc<dyn Backend>, Link),
    new: (Arc<dyn Backend>, Link),
}

impl World {
    async fn new() -> Self {
        let world = Self { old: Memory::new(Clock::tokio()), new: Memory::new(Clock::tokio()) };
        let client = world.client();
        let written =
            Staged::write(&*client.old.0, &place(), None, MoveId::new(1), WholeStage::before(0), false).await;
        written.expect("written").expect("the first");
        world
    }

    fn client(&self) -> Both {
        let mut config = Config::new("memory");
        (config.ttl, config.request_timeout) = (TTL, Duration::from_secs(1));
        let client = |store: &Memory| store.client(&config).expect("a good configuration");
        Both { old: client(&self.old), new: client(&self.new) }
    }
}

impl Both {
    fn place(&self, side: Side) -> Place {
        let (backend, namespace) = match side {
            Side::Old => (&self.old.0, "from"),
            Side::New => (&self.new.0, "to"),
        };
        Place { backend: Arc::clone(backend), namespace: Namespace::new(namespace) }
    }
}

fn place() -> MovePlace {
    MovePlace::of("from", "test").expect("a good name")
}

fn alone() -> Address {
    Address::new("move", Kind::Mutex, "values").expect("a good key")
}

fn value(kind: Kind, key: &str) -> Address {
    Address::new("any", kind, key).expect("a good key")
}

async fn read_stage(backend: &dyn Backend) -> Result<Staged> {
    Ok(Staged::read(backend, &place()).await?.expect("nobody deletes it"))
}

async fn join(backend: &dyn Backend, queue: Address, claim: Claim) -> Result<Arc<dyn Node>> {
    let mut join = Join {
        queue,
        id: NodeId::random(),
        claim,
        limit: Limit::Stored,
        label: "test".into(),
        data: Arc::default(),
        patience: Patience::Wait,
        repeated: false,
    };
    match backend.join(&join).await {
        Ok(Joined::Admitted(node) | Joined::Waiting(node)) => Ok(node),
        Ok(Joined::Refused) => Err(Error::new(ErrorKind::Unavailable, "it may wait")),
        Err(error) => {
            join.repeated = true;
            while let Err(error) = backend.abandon(&join).await {
                assert!(error.may_pass(), "{error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error)
        }
    }
}
