//! An operator that dies, or sleeps, at each of its requests: another goes on, and ends in the same place.

use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{Bed, Stored, ignored, state};
use crate::address::{Address, QueuePrefix};
use crate::capabilities::Capabilities;
use crate::clock::Clock;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{
    Backend, Cell, CellPage, CellWrite, CellWritten, Cells, ChangeWatch, Close, Entry, Incarnation, Join,
    Joined, Lease, Page, QueuePage, SequentialNodes, TimeToIdle,
};
use crate::coordinator::Coordinator;
use crate::decide::count::request::{Decided, Request};
use crate::decide::moving::MovePhase::{Done, New, Old};
use crate::error::{Error, Result};
use crate::facts::ServerFacts;
use crate::moving::operator::{Move, MoveState};
use crate::recipes::Semaphore;

/// How many requests are left to a client, and how the last one ends.
#[derive(Debug)]
struct Life {
    left: AtomicI64,
    last: Last,
    asleep: Notify,
    awake: Notify,
}

/// How the last request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// The client dies before it is carried out.
    Lost,
    /// It is carried out, and the client does not hear of it.
    Unheard,
    /// The client sleeps before it is sent, and then goes on.
    Asleep,
}

impl Life {
    fn new(last: Last) -> Arc<Self> {
        let (asleep, awake) = (Notify::new(), Notify::new());
        Arc::new(Self { left: AtomicI64::new(i64::MAX), last, asleep, awake })
    }

    /// Runs a request of one who may die at it.
    async fn spend<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        match (self.left.fetch_sub(1, Ordering::AcqRel), self.last) {
            (0, Last::Asleep) => {
                self.asleep.notify_one();
                self.awake.notified().await;
                request.await
            }
            (0, Last::Unheard) => {
                request.await?;
                Err(Error::closed())
            }
            (left, Last::Lost | Last::Unheard) if left <= 0 => Err(Error::closed()),
            _ => request.await,
        }
    }

    /// Whether the last request was sent.
    fn has_ended(&self) -> bool {
        self.left.load(Ordering::Acquire) < 0
    }
}

/// A client with a life.
#[derive(Debug)]
struct Mortal {
    inner: Arc<dyn Backend>,
    life: Arc<Life>,
}

/// Connects mortal clients.
#[derive(Debug)]
struct Mortals(Stored, Arc<Life>);

#[async_trait]
impl Connector for Mortals {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn validate(&self, config: &Config) -> Result<()> {
        self.0.validate(config)
    }

    fn clock(&self, config: &Config) -> Clock {
        self.0.clock(config)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Mortal { inner: self.0.connect(config).await?, life: Arc::clone(&self.1) }))
    }
}

#[async_trait]
impl SequentialNodes for Mortal {
    async fn join(&self, join: &Join) -> Result<Joined> {
        self.life.spend(self.inner.join(join)).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        self.inner.abandon(join).await
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        self.life.spend(self.inner.list(queue, page)).await
    }

    async fn queues(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage> {
        self.life.spend(self.inner.queues(of, after, most)).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        self.inner.watch_queue(queue)
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.inner.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.life.spend(self.inner.limit(queue)).await
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        self.inner.set_limit(queue, limit).await
    }

    async fn replace_limit(&self, queue: &Address, stored: Option<u32>, limit: u32) -> Result<bool> {
        self.life.spend(self.inner.replace_limit(queue, stored, limit)).await
    }

    async fn limited(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage> {
        self.life.spend(self.inner.limited(of, after, most)).await
    }
}

#[async_trait]
impl Cells for Mortal {
    async fn read_cell(&self, cell: &Address) -> Result<Option<Cell>> {
        self.life.spend(self.inner.read_cell(cell)).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.life.spend(self.inner.write_cell(cell, write)).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &Request,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        self.inner.change_count(cell, request, idle).await
    }

    async fn cells(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<CellPage> {
        self.life.spend(self.inner.cells(of, after, most)).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.inner.watch_cell(cell)
    }
}

#[async_trait]
impl Backend for Mortal {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn lease(&self) -> Lease {
        self.inner.lease()
    }

    fn incarnation(&self) -> Incarnation {
        self.inner.incarnation()
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.inner.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.inner.close(how).await
    }
}

impl Bed {
    /// An operator with a life, which has so many requests left.
    async fn mortal(&self, life: &Arc<Life>, requests: i64) -> Move {
        let mortals = Mortals(Stored(Arc::clone(&self.stores)), Arc::clone(life));
        let mortal = Move::connect(&[Arc::new(mortals) as Arc<dyn Connector>], &self.config).await;
        let mortal = mortal.expect("connected");
        life.left.store(requests, Ordering::Release);
        mortal
    }
}

/// Works as an operator whose life ends so behind so many requests, if it sends more, and as another one who
/// goes on. Answers both, and whether the first has come to its last request.
async fn ends(
    bed: &Bed,
    requests: i64,
    last: Last,
    work: impl AsyncFn(&Move) -> Result<()>,
) -> ([Move; 2], bool) {
    let life = Life::new(last);
    let mortal = bed.mortal(&life, requests).await;
    let another = bed.operator().await;
    let works = async || {
        let worked = work(&another).await;
        worked.unwrap_or_else(|error| panic!("beside one whose last was {requests}, {last:?}: {error}"));
    };
    let meanwhile = async {
        life.asleep.notified().await;
        let mut works = pin!(works());
        // One who sleeps with the hold that values are written under is waited for: its client lives.
        let ended = timeout(Duration::from_secs(60), &mut works).await;
        life.awake.notify_one();
        if ended.is_err() {
            works.await;
        }
        future::pending().await
    };
    let worked = tokio::select! {
        worked = work(&mortal) => worked,
        () = meanwhile => unreachable!(),
    };
    let has_ended = life.has_ended();
    assert!(worked.is_ok() || has_ended && last != Last::Asleep, "at {requests}, {last:?}: {worked:?}");
    works().await;
    ([mortal, another], has_ended)
}

/// What an operator does whose life ends at one of its requests, and what it comes to for the one who goes on.
pub(super) async fn ends_at_each_request(
    before: impl AsyncFn(&Bed),
    work: impl AsyncFn(&Move) -> Result<()>,
    behind: impl AsyncFn(&Bed, &Move),
) {
    for last in [Last::Lost, Last::Unheard, Last::Asleep] {
        for requests in 0.. {
            let bed = Bed::new();
            let member = bed.member("one").await.follows();
            before(&bed).await;
            let ([_mortal, another], has_ended) = ends(&bed, requests, last, &work).await;
            behind(&bed, &another).await;
            member.leaves().await;
            if !has_ended {
                assert!(requests > 10, "{requests}");
                break;
            }
        }
    }
}

/// A count of 7 stands on the old side, and a value, and the limit of a semaphore that nobody uses.
async fn has_values(bed: &Bed) {
    let plain = bed.plain_on_old("before").await.expect("connected");
    plain.counter("visits").expect("a good key").add(7).await.expect("added");
    plain.shared_value("text").expect("a good key").write("seven").await.expect("written");
    idle(&plain).set_limit(3).await.expect("set");
    plain.close().await.expect("closed");
}

fn idle(of: &Coordinator) -> Semaphore {
    of.semaphore_as_stored("idle").expect("a good key")
}

async fn limited(of: &Coordinator) -> Option<u32> {
    idle(of).stored_limit().await.expect("read")
}

async fn counted(plain: &Coordinator) -> i64 {
    plain.counter("visits").expect("a good key").get().await.expect("read")
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_beside_an_operator_who_ends_at_any_request() {
    let run = async |of: &Move| of.run(ignored).await;
    ends_at_each_request(has_values, run, async |bed, another| {
        assert_eq!(state(another).await, (MoveState::Done, Done));
        assert_eq!(another.status().await.expect("readable").epoch, 1);
        bed.plain_on_old("forgotten").await.expect_err("it has moved");
        let plain = bed.plain_on_new("current").await.expect("it is in use");
        assert_eq!(plain.backend().token(1).expect("fits").epoch(), 1);
        assert_eq!((counted(&plain).await, limited(&plain).await), (7, Some(3)));
        plain.close().await.expect("closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_move_is_taken_back_beside_an_operator_who_ends_at_any_request() {
    let begun = async |bed: &Bed| {
        has_values(bed).await;
        let operator = bed.operator().await;
        while operator.advance(ignored).await.expect("a step") != New {}
    };
    let abort = async |of: &Move| of.abort(ignored).await;
    ends_at_each_request(begun, abort, async |bed, another| {
        assert_eq!(state(another).await, (MoveState::NotBegun, Old));
        let (old, new) = (bed.plain_on_old("a").await, bed.plain_on_new("b").await);
        let (old, new) = (old.expect("it is open"), new.expect("it is open"));
        assert_eq!(old.backend().token(1).expect("fits").epoch(), 2);
        assert_eq!((counted(&old).await, counted(&new).await), (7, 0));
        assert_eq!(limited(&old).await, Some(3));
        old.close().await.expect("closed");
        new.close().await.expect("closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_move_is_finished_beside_an_operator_who_ends_at_any_request() {
    for last in [Last::Lost, Last::Unheard, Last::Asleep] {
        for requests in 0.. {
            let bed = Bed::new();
            has_values(&bed).await;
            bed.operator().await.run(ignored).await.expect("made");
            let finish = async |of: &Move| of.finish().await;
            let ([_mortal, another], has_ended) = ends(&bed, requests, last, finish).await;
            assert_eq!(state(&another).await, (MoveState::Finished, Done));
            bed.plain_on_old("forgotten").await.expect_err("it has moved");
            assert!(another.old.values_in_use().await.expect("listed").is_empty());
            assert_eq!(another.new.values_in_use().await.expect("listed").len(), 2);
            if !has_ended {
                break;
            }
        }
    }
}

/// What a plan says is of one stage, whoever writes the next one while it looks.
#[tokio::test(start_paused = true)]
async fn a_plan_that_is_overtaken_at_any_request_is_of_one_stage() {
    for requests in 0.. {
        let bed = Bed::new();
        has_values(&bed).await;
        let operator = bed.operator().await;
        while operator.advance(ignored).await.expect("a step") != New {}
        let life = Life::new(Last::Asleep);
        let looks = bed.mortal(&life, requests).await;
        let meanwhile = async {
            life.asleep.notified().await;
            operator.run(ignored).await.expect("made");
            // It belongs to nobody else: the new side is open.
            let plain = bed.plain_on_new("current").await.expect("it is in use");
            life.awake.notify_one();
            future::pending::<()>().await;
            drop(plain);
        };
        let plan = tokio::select! {
            plan = looks.plan() => plan.expect("readable"),
            () = meanwhile => unreachable!(),
        };
        assert_eq!(plan.blockers, [], "at {requests}, in {:?}", plan.status.phase);
        if !life.has_ended() {
            assert!(requests > 5, "{requests}");
            break;
        }
    }
}
