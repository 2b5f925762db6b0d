//! Values that move there and back between two memory stores, under traffic and faults.

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
use crate::contracts::{
    AskedLimit, Backend, CellLife, CellWrite, CellWritten, Expected, Join, Joined, Node, NodeId, Patience,
    Version,
};
use crate::decide::Claim;
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Side, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Link, Memory};

/// What a control does otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// MIGRATE-VALUES-ACK-WAITS: a participant acknowledges a stage when it has read it.
    AcknowledgesAtOnce,
    /// MIGRATE-VALUES-LIVE-MEMBER: it takes itself for a member always.
    CountsAnyAnswer,
    /// MIGRATE-VALUES-FREEZE: it uses values where they were while they are copied.
    FreezesNothing,
    /// MIGRATE-VALUES-VERIFY, MIGRATE-VALUES-MIRROR: what an operator writes never comes.
    WritesNothing,
}

const TTL: Duration = Duration::from_secs(4);

const PHASES: [MovePhase; 5] =
    [MovePhase::Old, MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done];

/// The stage as the tests write it.
fn text(whole: WholeStage) -> Arc<[u8]> {
    let WholeStage { stage: Stage { phase, epoch }, values } = whole;
    format!("{} {epoch} {}", phase as u8, values.as_str()).into_bytes().into()
}

fn parsed(text: &[u8]) -> WholeStage {
    let text = std::str::from_utf8(text).expect("as it was written");
    let words: Vec<_> = text.split(' ').collect();
    let phase = PHASES[words[0].parse::<usize>().expect("a number")];
    let epoch = words[1].parse().expect("a number");
    let values = ValuesAt::parse(words[2]).expect("one of four");
    assert!(values.fits(phase), "{text}");
    WholeStage { stage: Stage { phase, epoch }, values }
}

/// The two stores.
#[derive(Clone)]
struct World {
    old: Memory,
    new: Memory,
}

/// A client of both.
struct Both {
    old: (Arc<dyn Backend>, Link),
    new: (Arc<dyn Backend>, Link),
}

impl World {
    async fn new() -> Self {
        let world = Self { old: Memory::new(Clock::tokio()), new: Memory::new(Clock::tokio()) };
        let client = world.client();
        let stage = CellWrite {
            expected: Expected::Absent,
            value: Some(text(WholeStage::before(0))),
            life: CellLife::Stays,
        };
        let written = client.old.0.write_cell(&stage_cell(), &stage).await.expect("written");
        assert!(matches!(written, CellWritten::Written(_)));
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

fn stage_cell() -> Address {
    Address::new("move", Kind::Layout, "stage").expect("a good key")
}

fn members() -> Address {
    Address::new("move", Kind::Group, "members").expect("a good key")
}

fn alone() -> Address {
    Address::new("move", Kind::Mutex, "values").expect("a good key")
}

/// As participants name it.
fn value(kind: Kind, key: &str) -> Address {
    Address::new("any", kind, key).expect("a good key")
}

async fn read_stage(backend: &dyn Backend) -> Result<(Version, WholeStage)> {
    let cell = backend.read_cell(&stage_cell()).await?.expect("nobody deletes it");
    Ok((cell.version, parsed(&cell.value)))
}

/// Joins; a node that may be there is abandoned.
async fn join(backend: &dyn Backend, queue: Address, claim: Claim) -> Result<Arc<dyn Node>> {
    let mut join = Join {
        queue,
        id: NodeId::random(),
        claim,
        limit: AskedLimit::Stored,
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
                assert!(error.is_retryable(), "{error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error)
        }
    }
}
