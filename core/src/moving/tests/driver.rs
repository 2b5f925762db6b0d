use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::config::{Config, MoveConfig};
use crate::connect::take_part;
use crate::contracts::{Backend, CellLife, CellWrite, EntryPage, Expected};
use crate::decide::moving::evidence::{MoveId, MoveRecord};
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Side, Stage, Step, Way};
use crate::memory::{Link, Memory};
use crate::moving::member::MemberRecord;
use crate::moving::place::MovePlace;
use crate::moving::staged::Staged;
use crate::moving::{SideClient, client_number, side_config};
use crate::registry::stamp_address;
use crate::token::Tokens;
use crate::{Address, Clock, Coordinator};

pub(super) const ID: MoveId = MoveId::new(7);

pub(super) struct Stores {
    pub(super) old: Memory,
    pub(super) new: Memory,
    pub(super) sides: MoveConfig,
    place: MovePlace,
    operator: Coordinator,
    operator_of_new: Coordinator,
}

/// A participant, and its links to both stores.
pub(super) struct Part {
    pub(super) coordinator: Coordinator,
    pub(super) old: Link,
    pub(super) new: Link,
    // Their last handles would close the coordinator's connections.
    _sides: [Coordinator; 2],
}

pub(super) async fn two_in(phase: MovePhase) -> (Stores, Part, Part) {
    let stores = Stores::new();
    let [one, other] = stores.two_in(phase).await;
    (stores, one, other)
}

impl Stores {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

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
        let (operator_of_new, _) = new.connect(&sides.to).expect("memory");
        Self { old, new, sides, place, operator, operator_of_new }
    }

    /// A participant that is a member.
    pub(super) async fn participant(&self) -> Part {
        self.participant_with(|_| {}).await
    }

    pub(super) async fn participant_with(&self, change: impl FnOnce(&mut Config)) -> Part {
        let (old, old_link) = self.old.connect(&self.sides.from).expect("memory");
        let (new, new_link) = self.new.connect(&self.sides.to).expect("memory");
        let mut config = Config::of_move(self.sides.clone());
        change(&mut config);
        let sides = [old, new];
        let client = client_number();
        let side = |of: &Coordinator, side| {
            let config = side_config(&config, &self.sides, &client, side);
            SideClient::new(Client::new(Arc::clone(of.backend()), Tokens::default(), &config), &config)
        };
        let (old, new) = (side(&sides[0], Side::Old), side(&sides[1], Side::New));
        let (participant, coordinator) =
            take_part(old, new, &self.sides, &client, &config).expect("one clock");
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

    pub(super) fn stage(&self) -> &Address {
        &self.place.stage
    }

    pub(super) async fn staged(&self) -> Option<Staged> {
        Staged::read(&**self.operator.backend(), &self.place).await.expect("memory")
    }

    pub(super) async fn try_step(&self, way: Way) -> Option<Stage> {
        let backend: &dyn Backend = &**self.operator.backend();
        let read = match self.staged().await {
            Some(read) => read,
            None => self.begins().await?,
        };
        let members = backend.list(&self.place.members, EntryPage::new(0, 1000)).await.expect("memory");
        let acknowledged = members.into_iter().map(|entry| MemberRecord::from(entry).says.acknowledged);
        match read.stage.step(&read.version.number(), acknowledged, way) {
            Step::Write(stage) => self.announces(&read, stage).await.map(|_| stage),
            Step::Waits => None,
            other => panic!("{other:?} at {read:?}"),
        }
    }

    pub(super) async fn begins(&self) -> Option<Staged> {
        let backend: &dyn Backend = &**self.operator.backend();
        let first = Staged::write(backend, &self.place, None, ID, WholeStage::before(0), false).await;
        let first = first.expect("memory")?;
        self.records(Some(MoveRecord::prepared(ID, 0))).await;
        Some(first)
    }

    /// Writes a stage over the current one without acknowledgements.
    pub(super) async fn force(&self, phase: MovePhase, epoch: u16) {
        let read = match self.staged().await {
            Some(read) => read,
            None => self.begins().await.expect("no other client writes it"),
        };
        self.announces(&read, Stage { phase, epoch }).await.expect("no other client writes it");
    }

    /// Writes the record, and then the stage, without values.
    async fn announces(&self, read: &Staged, stage: Stage) -> Option<Staged> {
        let (from, over) = (read.stage.phase, read.version.number());
        let (to, values) = (Some(stage.phase), stage.phase.token().into());
        self.records(Some(MoveRecord { id: ID, from, to, values, over, epoch: stage.epoch })).await;
        let whole = WholeStage { stage, values };
        let backend: &dyn Backend = &**self.operator.backend();
        Staged::write(backend, &self.place, Some(read), ID, whole, false).await.expect("memory")
    }

    pub(super) async fn records(&self, record: Option<MoveRecord>) {
        let record = record.map_or_else(String::new, |MoveRecord { id, from, to, values, over, epoch }| {
            let (to, values) = (to.map_or("given-up", MovePhase::as_str), values.as_str());
            format!(
                "&record=m&record_id={id}&record_from={from}&record_to={to}&record_values={values}&record_over={over}\
                 &record_epoch={epoch}"
            )
        });
        let backend: &dyn Backend = &**self.operator_of_new.backend();
        stamps(backend, &self.sides.to.namespace, &format!("layout=2{record}")).await;
    }

    /// Gives the move up in its first phase, after it has written the epoch into the stamp.
    pub(super) async fn give_up(&self) {
        let backend: &dyn Backend = &**self.operator.backend();
        let staged = self.staged().await.expect("it has begun");
        assert_eq!(staged.stage.phase, MovePhase::Old);
        let epoch = staged.stage.epoch;
        stamps(backend, &self.sides.from.namespace, &format!("layout=2&epoch={epoch}")).await;
        let (from, over) = (MovePhase::Old, staged.version.number());
        let values = ValuesAt::Old;
        self.records(Some(MoveRecord { id: ID, from, to: None, values, over, epoch })).await;
        assert!(staged.delete(backend, &self.place).await.expect("memory"));
        self.records(None).await;
    }

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

    pub(super) async fn settled(&self) {
        loop {
            let backend: &dyn Backend = &**self.operator.backend();
            let version = self.staged().await.map(|staged| staged.version.number());
            let members = backend.list(&self.place.members, EntryPage::new(0, 1000)).await.expect("memory");
            if members.into_iter().all(|entry| MemberRecord::from(entry).says.acknowledged == version) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn stamps(backend: &dyn Backend, namespace: &str, text: &str) {
    let stamp = stamp_address(namespace).expect("a good namespace");
    let value = Some(text.as_bytes().into());
    let write = CellWrite { expected: Expected::Any, value, life: CellLife::Stays };
    backend.write_cell(&stamp, &write).await.expect("memory");
}
