//! MIGRATE-: the steps of a move on one backend. The cases play participants.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::actions::{acquire, enters_by, join_of, mutex, release};
use crate::bounds::{CLEAN_UP, LONG_TTL, PATIENCE, SHORT_TTL};
use crate::case::cases;
use crate::cell_actions::read;
use crate::context::Context;
use crate::errors::fails;
use crate::testbed::{Client, of_a_case};
use crate::waits::{soon, until, within};
use futures_util::future::join;
use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::backend::{EntryPage, ExpectedLimit, Join, Node};
use latchwork_core::{
    Address, Claim, Config, Coordinator, Error, ErrorKind, Kind, Move, MoveBlocker, MoveConfig, MoveProgress,
    MoveState, Token,
};
use tokio::time::timeout;

const WAY: Duration = Duration::from_millis(5);

/// On Redis each step scans all keys of the server several times.
const ALL_STEPS_WITHIN: Duration = PATIENCE.saturating_mul(3);

fn ignored(_: &MoveProgress<'_>) {}

fn sides(context: &Context) -> MoveConfig {
    let from = context.config(LONG_TTL);
    let [_, second, _] = of_a_case(&from.namespace);
    let mut to = from.clone();
    to.namespace = second;
    MoveConfig::new(from, to, "a move")
}

async fn client(context: &Context, of: &Config, label: &str) -> Result<Client, Error> {
    let mut config = of.clone();
    config.label = Some(label.to_owned());
    soon("connect", context.fixture.client(&config)).await
}

async fn operator(context: &Context) -> Move {
    operator_at(context, Duration::ZERO).await
}

/// Other requests come between a slow operator's requests.
async fn operator_at(context: &Context, way: Duration) -> Move {
    let sides = sides(context);
    let of = async |config: &Config| context.client_with(&config.clone().as_operator()).await;
    let (old, new) = (of(&sides.from).await, of(&sides.to).await);
    if !way.is_zero() {
        old.link.delay(way);
    }
    Move::over(old.coordinator, new.coordinator, &sides).expect("an operator's clients")
}

async fn close(clients: impl IntoIterator<Item = Coordinator>) {
    for client in clients {
        soon("close", client.close()).await.expect("closed");
    }
}

struct Participant {
    sides: [Client; 2],
    members: Address,
    stage: Address,
    node: Arc<dyn Node>,
    label: String,
}

impl Participant {
    async fn new(context: &Context, label: &str) -> Self {
        Self::with(context, sides(context), label).await
    }

    /// It dies, and the operator waits.
    async fn mortal(context: &Context, label: &str) -> Self {
        let mut sides = sides(context);
        sides.from.ttl = SHORT_TTL;
        Self::with(context, sides, label).await
    }

    async fn with(context: &Context, sides: MoveConfig, label: &str) -> Self {
        let name = sides.name.clone();
        let of = async |config: Config| client(context, &config.as_participant(&name, label), label).await;
        let clients = [of(sides.from.clone()).await, of(sides.to).await];
        let clients = clients.map(|client| client.expect("it takes part"));
        let at = |kind| Address::new(&sides.from.namespace, kind, format!("move/{name}").as_str());
        let (members, stage) =
            (at(Kind::Clients).expect("a good key"), at(Kind::Layout).expect("a good key"));
        let join = Join {
            label: label.into(),
            data: Arc::from(format!("host=played&client={label}").as_bytes()),
            ..join_of(&members, Claim::Shared)
        };
        let (is_admitted, node) = enters_by(&clients[0], &join).await;
        assert!(is_admitted, "the queue of members must admit all nodes");
        Self { sides: clients, members, stage, node, label: label.to_owned() }
    }

    async fn acknowledges(&self) {
        if let Some(cell) = read(&self.sides[0], &self.stage).await {
            let text = String::from_utf8_lossy(&cell.value);
            let id = text.split('&').find(|field| field.starts_with("id=")).expect("a stage has an identity");
            let (label, version) = (&self.label, cell.version.number());
            let data = format!("host=played&client={label}&{id}&acknowledged={version}").into_bytes();
            soon("acknowledge", self.node.write_data(&data.into())).await.expect("it stands");
        }
    }

    async fn follows(&self) {
        let mut watch = self.sides[0].coordinator.backend().watch_cell(&self.stage);
        loop {
            watch.changed().await.expect("watched");
            self.acknowledges().await;
        }
    }

    async fn meanwhile<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            () = self.follows() => unreachable!("it has no end"),
            done = timeout(ALL_STEPS_WITHIN, work) => match done {
                Ok(done) => done,
                Err(_) => self.stands_still().await,
            },
        }
    }

    async fn stands_still(&self) -> ! {
        let backend = self.sides[0].coordinator.backend();
        let stage = soon("the stage", backend.read_cell(&self.stage)).await;
        let members = soon("the members", backend.list(&self.members, EntryPage::new(0, 100))).await;
        panic!("the steps did not happen within {ALL_STEPS_WITHIN:?}: {stage:?}, {members:?}")
    }

    async fn leaves(self) {
        close(self.sides.map(|side| side.coordinator)).await;
    }
}

async fn token(of: &Client) -> Token {
    let hold = acquire(&mutex(of, "a")).await;
    let token = hold.token();
    release(hold).await;
    token
}

cases! {
    "MIGRATE-GATE" =>
    /// a plain client of either side, idle or not, prevents the start of a move: it is named, and it and others work as
    /// before; after it has closed, both sides refuse plain clients until the move is given up
    async fn migrate_gate_begins_over_no_outsider(context) {
        let (sides, operator) = (sides(context), operator(context).await);
        let member = Participant::new(context, "one").await;
        for of in [&sides.from, &sides.to] {
            let forgotten = client(context, of, "the-forgotten-one").await.expect("connected");
            let plan = soon("plan", operator.plan()).await.expect("readable");
            let outside: Vec<_> = plan.outsiders.iter().map(|of| &*of.client.label).collect();
            assert_eq!(outside, ["the-forgotten-one"], "idle, and found");
            assert!(matches!(plan.blockers[..], [MoveBlocker::Outsiders(_)]), "{:?}", plan.blockers);
            let error = fails(soon("start", operator.start(ignored)).await, ErrorKind::Conflict, "a plain client");
            assert!(error.to_string().contains("\"the-forgotten-one\""), "{error}");
            let status = soon("status", operator.status()).await.expect("readable");
            assert_eq!(status.state, MoveState::NotBegun);
            let another = client(context, of, "another").await.expect("nothing has changed");
            close([forgotten.coordinator, another.coordinator]).await;
        }
        let phase = member.meanwhile(operator.start(ignored)).await.expect("they are gone");
        assert_eq!(phase, MovePhase::BothByOld);
        for of in [&sides.from, &sides.to] {
            let error = fails(client(context, of, "late").await, ErrorKind::Misconfigured, "it moves");
            assert!(error.to_string().contains("&move=a%20move"), "the error must name both URLs and the move: {error}");
        }
        member.meanwhile(operator.abort(ignored)).await.expect("given up");
        member.leaves().await;
        for of in [&sides.from, &sides.to] {
            close([client(context, of, "back").await.expect("it is open").coordinator]).await;
        }
    }

    "MIGRATE-ACK-NAMES-VERSION" =>
    /// a step waits for the member that has not acknowledged the phase, names it, and continues after the
    /// acknowledgement; for a dead member, it waits until the lease has ended
    async fn migrate_ack_names_version_a_step_waits_for_the_last_member(context) {
        let operator = operator(context).await;
        let (willing, late) = (Participant::new(context, "willing").await, Participant::mortal(context, "late").await);
        let (mut told, waits) = (Vec::new(), tokio::sync::Notify::new());
        let start = operator.start(|progress| {
            if let MoveProgress::Waits(status) = progress {
                told = status.waits_for.iter().map(|late| late.label.clone()).collect();
                if told == ["late"] {
                    waits.notify_one();
                }
            }
        });
        let acknowledges = async {
            waits.notified().await;
            late.acknowledges().await;
        };
        let (phase, ()) = willing.meanwhile(join(start, acknowledges)).await;
        assert_eq!(phase.expect("acknowledged"), MovePhase::BothByOld);
        let status = soon("status", operator.status()).await.expect("readable");
        assert!(status.waits_for.iter().any(|of| of.label == "late"), "{status:?}");
        // A client that one side still lists is waited for.
        late.sides.iter().for_each(|side| side.link.cut());
        let bound = late.sides.iter().map(|side| context.recovery(side)).max().unwrap_or_default() + CLEAN_UP;
        let steps = within(bound, "its leases end", operator.advance(ignored));
        let phase = tokio::select! {
            () = willing.follows() => unreachable!("it has no end"),
            phase = steps => phase,
        };
        assert_eq!(phase.expect("it is gone"), MovePhase::BothByNew);
        late.sides.iter().for_each(|side| side.link.heal());
        for side in &late.sides {
            let reads = || async { side.coordinator.backend().read_cell(&late.stage).await.is_ok() };
            until("the client is connected again", reads).await;
        }
        late.leaves().await;
        willing.meanwhile(operator.abort(ignored)).await.expect("given up");
        willing.leaves().await;
    }

    "MIGRATE-EPOCH-RECORDED" =>
    /// plain clients give tokens above all tokens of a move, after a move that was reversed and after one that is done;
    /// then the old side refuses clients
    async fn migrate_epoch_recorded_plain_tokens_rise_after_a_move(context) {
        let (sides, operator) = (sides(context), operator(context).await);
        let plain = client(context, &sides.from, "before").await.expect("connected");
        let before = token(&plain).await;
        close([plain.coordinator]).await;
        let member = Participant::new(context, "one").await;
        loop {
            let phase = member.meanwhile(operator.advance(ignored)).await.expect("a step");
            let early = client(context, &sides.to, "early").await;
            fails(early, ErrorKind::Misconfigured, &format!("{phase:?}: the new side is not in use yet"));
            if phase == MovePhase::New {
                break;
            }
        }
        member.meanwhile(operator.abort(ignored)).await.expect("given up");
        let plain = client(context, &sides.from, "back").await.expect("it is open");
        let back = token(&plain).await;
        close([plain.coordinator]).await;
        assert!(back > before && back.epoch() == before.epoch() + 2, "{back} behind {before}");
        member.meanwhile(operator.run(ignored)).await.expect("made");
        let plain = client(context, &sides.to, "behind").await.expect("it is in use");
        let behind = token(&plain).await;
        assert!(behind > back && behind.epoch() == back.epoch() + 1, "{behind} behind {back}");
        close([plain.coordinator]).await;
        let error = soon("finish", operator.finish()).await.expect_err("a participant is connected");
        assert!(error.to_string().contains("\"one\""), "{error}");
        member.leaves().await;
        soon("finish", operator.finish()).await.expect("it has left");
        let error = fails(client(context, &sides.from, "forgotten").await, ErrorKind::Misconfigured, "it has moved");
        assert!(error.to_string().contains(&*sides.to.namespace), "the error must name the URL to use: {error}");
    }

    "MIGRATE-COMPARE-AND-SET" =>
    /// two operators at once make one move: no phase is skipped, and no epoch is used twice
    async fn migrate_compare_and_set_two_operators_make_one_move(context) {
        let (one, other) = (operator_at(context, WAY).await, operator_at(context, WAY).await);
        let member = Participant::new(context, "one").await;
        let written = Mutex::new(Vec::new());
        let reached = |progress: &MoveProgress<'_>| {
            if let MoveProgress::Reached(phase) = progress {
                written.lock().expect("not poisoned").push(*phase);
            }
        };
        let (first, second) = member.meanwhile(join(one.run(reached), other.run(reached))).await;
        first.and(second).expect("both operators get an answer after the step");
        let all = [MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done];
        assert_eq!(written.into_inner().expect("not poisoned"), all, "each step must be made by one operator");
        let status = soon("status", one.status()).await.expect("readable");
        assert_eq!((status.phase, status.epoch), (MovePhase::Done, 1), "{status:?}");
        member.leaves().await;
        until("it has left", || async { one.finish().await.is_ok() }).await;
        let (first, second) = soon("again", join(one.finish(), other.finish())).await;
        first.and(second).expect("it is finished");
    }

    "MIGRATE-LIMITS" =>
    /// the stored limits of semaphores move with the locks, also of unused ones, and replace the limits of the new
    /// side; they come back with a reversed move
    async fn migrate_limits_move_with_the_locks(context) {
        let (sides, operator) = (sides(context), operator(context).await);
        let at = |of: &MoveConfig, key: &str| {
            [&of.from, &of.to].map(|side| Address::new(&side.namespace, Kind::Semaphore, key).expect("a good key"))
        };
        let plain = client(context, &sides.from, "before").await.expect("connected");
        let backend = plain.coordinator.backend();
        let set = async |queue: &Address, limit| {
            soon("set", backend.set_limit(queue, ExpectedLimit::Any, limit)).await.expect("set");
        };
        let ([idle_old, idle_new], [used_old, used_new]) = (at(&sides, "idle"), at(&sides, "used"));
        set(&idle_old, 3).await;
        set(&used_old, 4).await;
        set(&used_new, 9).await;
        close([plain.coordinator]).await;
        let member = Participant::new(context, "one").await;
        let backends = [0, 1].map(|side| Arc::clone(member.sides[side].coordinator.backend()));
        let stored = async |side: usize, queue: &Address| {
            soon("limit", backends[side].limit(queue)).await.expect("read")
        };
        while member.meanwhile(operator.advance(ignored)).await.expect("a step") != MovePhase::BothByNew {}
        assert_eq!((stored(1, &idle_new).await, stored(1, &used_new).await), (Some(3), Some(4)));
        // As a participant does, first on the side of the tokens.
        for (side, queue) in [(1, &idle_new), (0, &idle_old)] {
            soon("set", backends[side].set_limit(queue, ExpectedLimit::Any, 7)).await.expect("set");
        }
        let [born_old, born_new] = at(&sides, "born");
        soon("set", backends[1].set_limit(&born_new, ExpectedLimit::Any, 5)).await.expect("set");
        member.meanwhile(operator.abort(ignored)).await.expect("given up");
        assert_eq!((stored(0, &idle_old).await, stored(0, &born_old).await), (Some(7), Some(5)));
        member.leaves().await;
        soon("close", operator.close()).await.expect("closed");
    }
}
