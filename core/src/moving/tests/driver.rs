//! Participants on two memory stores, and an operator that drives their move.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::config::{Config, MoveConfig};
use crate::connect::take_part;
use crate::contracts::{Backend, CellLife, CellWrite, EntryPage, Expected};
use crate::decide::moving::values::WholeStage;
use crate::decide::moving::{MovePhase, Side, Stage, Step, Way};
use crate::memory::{Link, Memory};
use crate::moving::member::MemberRecord;
use crate::moving::place::MovePlace;
use crate::moving::staged::Staged;
use crate::moving::{SideClient, side_config};
use crate::registry::stamp_address;
use crate::token::Tokens;
use crate::{Address, Clock, Coordinator};

/// Two stores, between which the locks move.
pub(super) struct Stores {
    pub(super) old: Memory,
    pub(super) new: Memory,
    pub(super) sides: MoveConfig,
    place: MovePlace,
    operator: Coordinator,
}

/// A participant, and its links to both stores.
pub(super) struct Part {
    pub(super) coordinator: Coordinator,
    pub(super) old: Link,
    pub(super) new: Link,
    // Their last handles would close the connections of the coordinator.
    _sides: [Coordinator; 2],
}

/// Two stores, and two participants in a phase that both have acknowledged.
pub(super) async fn two_in(phase: MovePhase) -> (Stores, Part, Part) {
    let stores = Stores::new();
    let [one, other] = stores.two_in(phase).await;
    (stores, one, other)
}

impl Stores {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Stores with other options on both sides.
    pub(super) fn with(change: impl Fn(&mut Config)) -> Self {
        let clock = Clock::tokio();
        let (old, new) = (Memory::new(clock.clone()), Memory::new(clock));
        let side = |host: &str| {
            let mut config = Config { hosts: vec![host.to_owned()], ..Config::new("memory") };
            change(&mut config);
            config
        };
        let sides =
            MoveConfig::new(side("old"), Config { namespace: "other".to_owned(), ..side("new") }, "m");
        let place = MovePlace::of(&sides.from.namespace, "m").expect("a good name");
        let (operator, _) = old.connect(&sides.from).expect("memory");
        Self { old, new, sides, place, operator }
    }

    /// A participant that is a member.
    pub(super) async fn participant(&self) -> Part {
        self.participant_with(|_| {}).await
    }

    /// A participant with this configuration.
    pub(super) async fn participant_with(&self, change: impl FnOnce(&mut Config)) -> Part {
        let (old, old_link) = self.old.connect(&self.sides.from).expect("memory");
        let (new, new_link) = self.new.connect(&self.sides.to).expect("memory");
        let mut config = Config::of_move(self.sides.clone());
        change(&mut config);
        let sides = [old, new];
        let side = |of: &Coordinator, side| {
            let config = side_config(&config, &self.sides, side);
            SideClient::new(Client::new(Arc::clone(of.backend()), Tokens::default(), &config), &config)
        };
        let (old, new) = (side(&sides[0], Side::Old), side(&sides[1], Side::New));
        let (participant, coordinator) = take_part(old, new, &self.sides, &config).expect("one clock");
        participant.ready_within(Duration::from_secs(5)).await.expect("a member");
        Part { coordinator, old: old_link, new: new_link, _sides: sides }
    }

    /// Two participants in a phase that both have acknowledged.
    pub(super) async fn two_in(&self, phase: MovePhase) -> [Part; 2] {
        let two = [self.participant().await, self.participant().await];
        self.go(phase).await;
        tokio::time::timeout(Duration::from_secs(120), self.settled()).await.expect("acknowledged");
        two
    }

    /// The address of the stage.
    pub(super) fn stage(&self) -> &Address {
        &self.place.stage
    }

    pub(super) async fn staged(&self) -> Option<Staged> {
        Staged::read(&**self.operator.backend(), &self.place).await.expect("memory")
    }

    /// Tries one step. Returns the written stage.
    pub(super) async fn try_step(&self, way: Way) -> Option<Stage> {
        let backend: &dyn Backend = &**self.operator.backend();
        let read = match self.staged().await {
            Some(read) => read,
            None => {
                let first = WholeStage::before(0);
                Staged::write(backend, &self.place, None, first).await.expect("memory")?
            }
        };
        let members = backend.list(&self.place.members, EntryPage::new(0, 1000)).await.expect("memory");
        let acknowledged = members.into_iter().map(|entry| MemberRecord::from(entry).acknowledged);
        match read.stage.step(&read.version.number(), acknowledged, way) {
            Step::Write(stage) => {
                // There are no values.
                let whole = WholeStage { stage, values: stage.phase.token().into() };
                Staged::write(backend, &self.place, Some(&read), whole).await.expect("memory").map(|_| stage)
            }
            Step::Waits => None,
            other => panic!("{other:?} at {read:?}"),
        }
    }

    /// Writes a stage over the current one without waiting for acknowledgements.
    pub(super) async fn force(&self, phase: MovePhase, epoch: u16) {
        let (backend, read): (&dyn Backend, _) = (&**self.operator.backend(), self.staged().await);
        let whole = WholeStage { stage: Stage { phase, epoch }, values: phase.token().into() };
        let written = Staged::write(backend, &self.place, read.as_ref(), whole).await.expect("memory");
        written.expect("no other client writes it");
    }

    /// Gives the move up in its first phase, after it wrote the epoch to the stamp.
    pub(super) async fn give_up(&self) {
        let backend: &dyn Backend = &**self.operator.backend();
        let staged = self.staged().await.expect("it has begun");
        assert_eq!(staged.stage.phase, MovePhase::Old);
        let stamp = stamp_address(&self.sides.from.namespace).expect("a good namespace");
        let value = Some(format!("layout=1&epoch={}", staged.stage.epoch).into_bytes().into());
        let write = CellWrite { expected: Expected::Any, value, life: CellLife::Stays };
        backend.write_cell(&stamp, &write).await.expect("memory");
        assert!(staged.delete(backend, &self.place).await.expect("memory"));
    }

    /// Steps until this phase is written.
    pub(super) async fn go(&self, to: MovePhase) -> Stage {
        loop {
            let phase = self.staged().await.map_or(MovePhase::Old, |staged| staged.stage.phase);
            if phase == to {
                return self.staged().await.map_or(Stage::before(0), |staged| staged.stage);
            }
            let way = if phase < to { Way::Forward } else { Way::Back };
            if self.try_step(way).await.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Waits until every member has acknowledged the current stage.
    pub(super) async fn settled(&self) {
        loop {
            let backend: &dyn Backend = &**self.operator.backend();
            let version = self.staged().await.map(|staged| staged.version.number());
            let members = backend.list(&self.place.members, EntryPage::new(0, 1000)).await.expect("memory");
            if members.into_iter().all(|entry| MemberRecord::from(entry).acknowledged == version) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
