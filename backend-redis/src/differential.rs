//! The same random histories for the scripts on a real server and for their twin in core: every answer, every
//! message and every listing must agree. That is what lets the models explore core's function in the scripts' place.

mod deleted;
mod limits;
mod vandal;

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::servers::{self, Options, Server};
use latchwork_core::contracts::{AskedLimit, Join, NodeId, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::decide::queue::{Answer, Ask, Queue as Twin, Told};
use latchwork_core::{Address, Clock, Config, Kind};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::client::TOMBSTONE;
use crate::config::Settings;
use crate::driver::Driver;
use crate::inbox::Secret;
use crate::layout::{Queue, Shape};
use crate::scripts::{self, JoinAnswer, RenewAnswer, Reply};

const SECOND: u64 = 1_000_000;
const LIMIT: u32 = 4;
/// The TTLs of the clients of a history, in microseconds.
const TTLS: [u64; 3] = [SECOND, 3 * SECOND, 10 * SECOND];

/// Of every node of a history.
const SECRET: Secret = Secret::of(0x5ec2e7);

/// Only what never ends meets this bound.
const PATIENCE: Duration = Duration::from_secs(60);

/// SplitMix64: a history is told by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let sides = u64::try_from(of.len()).ok().filter(|sides| *sides > 0)?;
        of.get(usize::try_from(self.roll(sides)).ok()?)
    }
}

/// One attempt of a history, and what the server said its sequence number is.
#[derive(Clone, Debug)]
struct Attempt {
    join: Join,
    ttl: u64,
    sequence: u64,
}

struct Bench {
    driver: Driver,
    channel: String,
    heard: Arc<Mutex<Vec<u8>>>,
    raw: redis::aio::MultiplexedConnection,
}

impl Bench {
    async fn new(url: &str) -> Self {
        let config: Config = url.parse().unwrap();
        let settings = Settings::of(&config).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let on_message = Arc::new(move |message: &[u8]| {
            let mut heard = ear.lock();
            heard.extend_from_slice(message);
            heard.push(b' ');
        });
        let channel = settings.inbox.clone();
        let connected = Driver::connect(settings, Clock::system(), on_message, Arc::new(Notify::new())).await;
        let (driver, _) = connected.map_err(|failure| failure.error).unwrap();
        // The client crate's own timeouts are short, and machines stand still.
        let patient = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = redis::Client::open(url).unwrap();
        let raw = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
        let bench = Self { driver, channel, heard, raw };
        // What the self-test published.
        bench.told().await;
        bench
    }

    async fn run(&self, call: scripts::Call) -> Reply {
        self.driver.run(&call, PATIENCE).await.unwrap().1
    }

    /// Whom the last script told, and of what. A message may come behind the script's reply, but not behind the next one's.
    async fn told(&self) -> Vec<(String, i64)> {
        self.driver.ping(PATIENCE).await.unwrap();
        let heard = std::mem::take(&mut *self.heard.lock());
        let text = String::from_utf8(heard).unwrap();
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let mut told: Vec<_> =
            words.chunks(2).map(|pair| (pair[0].to_owned(), told_sequence(pair[1]))).collect();
        told.sort_unstable();
        told
    }
}

/// Who tells of an admission knows the node's secret; to look again, anybody may say.
fn told_sequence(word: &str) -> i64 {
    let (sequence, secret) =
        word.split_once('.').map_or((word, None), |(number, secret)| (number, Some(secret)));
    let sequence = sequence.parse().unwrap();
    let expected = (sequence > 0).then(|| SECRET.to_string());
    assert_eq!(secret.map(str::to_owned), expected, "{word}");
    sequence
}

/// How often the histories met the two forms of a queue.
#[derive(Debug, Default)]
struct Forms {
    folded_free: usize,
    folded_held: usize,
    unfolded: usize,
    folds: usize,
    unfolds: usize,
}

impl Forms {
    fn add(&mut self, other: &Self) {
        self.folded_free += other.folded_free;
        self.folded_held += other.folded_held;
        self.unfolded += other.unfolded;
        self.folds += other.folds;
        self.unfolds += other.unfolds;
    }
}

/// One history.
struct History<'a> {
    bench: &'a mut Bench,
    forms: Forms,
    folded: bool,
    quiet: bool,
    queue: Queue,
    twin: Twin,
    dice: Dice,
    ttls: &'static [u64],
    now: u64,
    attempts: Vec<Attempt>,
    address: Address,
    log: Vec<String>,
}

impl<'a> History<'a> {
    fn new(bench: &'a mut Bench, address: Address, seed: u64) -> Self {
        Self {
            bench,
            forms: Forms::default(),
            folded: false,
            quiet: seed.is_multiple_of(2),
            queue: Queue::of(&address).unwrap(),
            twin: Twin::new(),
            dice: Dice(seed),
            ttls: &TTLS,
            now: 1_763_690_000_000_000,
            attempts: Vec::new(),
            address,
            log: vec![format!("seed {seed}")],
        }
    }

    async fn step(&mut self) {
        if self.quiet {
            // What is long gone is rarely named, so that leaves meet their nodes.
            let gone = self.attempts.len().saturating_sub(3);
            self.attempts.drain(..gone);
        }
        match self.dice.roll(24) {
            // Half of the histories are quiet: mostly nobody contends, which is what folds a queue.
            0..=5 if self.quiet && !self.twin.is_empty() && self.dice.roll(4) > 0 => self.renew().await,
            15 if self.quiet && self.dice.roll(4) > 0 => self.outlive_tombstones(),
            0..=5 => self.join_new().await,
            6 => self.join_again().await,
            7..=10 => self.renew().await,
            11..=14 => self.leave().await,
            15 => self.abandon().await,
            16 => self.list().await,
            17 => self.remove().await,
            18 => self.revoke().await,
            19..=21 => match self.address.kind() {
                Kind::RwLock => self.downgrade().await,
                Kind::Semaphore => self.set_limit().await,
                _ => self.pass_time(),
            },
            _ => self.pass_time(),
        }
        self.look_at_the_form().await;
    }

    /// What stands in the folded form stands nowhere else, and only a live tombstone keeps an empty queue unfolded.
    async fn look_at_the_form(&mut self) {
        let keys: Vec<_> = self.queue.keys().map(|key| key.to_string()).collect();
        if self.queue.shape == Shape::Permits {
            return;
        }
        let (one, rest) = (&keys[4], keys[..4].iter().chain(&keys[5..]));
        let raw = &mut self.bench.raw;
        let text: Option<String> = redis::cmd("GET").arg(one).query_async(raw).await.unwrap();
        let others: u32 = redis::cmd("EXISTS").arg(rest.collect::<Vec<_>>()).query_async(raw).await.unwrap();
        let folded = text.is_some();
        let history = || self.log.join("\n");
        assert!(!folded || others == 0, "folded, and unfolded too, after:\n{}", history());
        let used = self.twin.last_sequence() > 0;
        assert!(folded || !used || !self.twin.is_forgettable(self.now), "not folded after:\n{}", history());
        match &text {
            None => self.forms.unfolded += usize::from(others > 0),
            Some(text) if text.contains(' ') => self.forms.folded_held += 1,
            Some(_) => self.forms.folded_free += 1,
        }
        self.forms.folds += usize::from(folded && !self.folded);
        self.forms.unfolds += usize::from(!folded && self.folded);
        self.folded = folded;
    }

    fn pass_time(&mut self) {
        match self.dice.roll(12) {
            // The server's clock is set back.
            0 => self.now -= self.dice.roll(3 * SECOND),
            1 => self.now += self.dice.roll(12 * SECOND),
            _ => self.now += self.dice.roll(SECOND),
        }
        self.log.push(format!("now {}", self.now));
    }

    /// All tombstones run out, and stay so when the clock is set back.
    fn outlive_tombstones(&mut self) {
        self.now += 2 * u64::try_from(TOMBSTONE.as_micros()).unwrap();
        self.log.push(format!("now {}", self.now));
    }

    fn claim(&mut self) -> Claim {
        match (self.address.kind(), self.dice.roll(3)) {
            (Kind::Semaphore, _) => Claim::Permits(u32::try_from(1 + self.dice.roll(5)).unwrap()),
            (Kind::RwLock, 1..) => Claim::Shared,
            _ => Claim::Exclusive,
        }
    }

    async fn join_new(&mut self) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.dice.roll(u64::MAX).to_be_bytes());
        let limit = match self.dice.roll(8) {
            0 => AskedLimit::Stored,
            1 => AskedLimit::Exactly(LIMIT + 1),
            2 => AskedLimit::UnlessStored(LIMIT + 1),
            _ => AskedLimit::Exactly(self.twin.limit().unwrap_or(LIMIT)),
        };
        let join = Join {
            queue: self.address.clone(),
            id: NodeId::from_bytes(bytes),
            claim: self.claim(),
            limit,
            label: "a label: with spaces\nand lines".into(),
            patience: if self.dice.roll(4) == 0 { Patience::Try } else { Patience::Wait },
            repeated: false,
        };
        let ttl = *self.dice.pick(self.ttls).unwrap();
        self.join(Attempt { join, ttl, sequence: 0 }).await;
    }

    async fn join_again(&mut self) {
        if let Some(attempt) = self.dice.pick(&self.attempts).cloned() {
            self.join(attempt).await;
        }
    }

    async fn join(&mut self, mut attempt: Attempt) {
        let Join { id, claim, limit, patience, .. } = attempt.join;
        self.log.push(format!("join {id} {claim:?} {limit:?} {patience:?} ttl {}", attempt.ttl));
        let ttl = Duration::from_micros(attempt.ttl);
        let call =
            scripts::join(&self.queue, &attempt.join, ttl, (SECRET, &self.bench.channel), Some(self.now));
        let (answer, _, time) = scripts::joined(self.bench.run(call).await).unwrap();
        let ask = Ask { id, claim, limit, ttl: attempt.ttl, patience };
        let (twin, told) = self.twin.join(self.now, &ask);
        let twin = self.not_before_now(twin);
        self.check(
            Some(id),
            match answer {
                JoinAnswer::Admitted { sequence } => Answer::Admitted { sequence },
                JoinAnswer::Waiting { sequence, ahead } => self.waiting(sequence, ahead),
                JoinAnswer::Refused => Answer::Refused,
                JoinAnswer::Abandoned => Answer::Gone,
                JoinAnswer::Conflict { stored } => Answer::Conflict { stored: stored.permits() },
            },
            twin,
            told,
        )
        .await;
        assert_eq!(time, i64::try_from(self.now).unwrap());
        if let Answer::Admitted { sequence } | Answer::Waiting { sequence, .. } = twin {
            self.attempts.retain(|known| known.join.id != id);
            attempt.sequence = sequence;
        }
        self.attempts.push(attempt);
    }

    async fn renew(&mut self) {
        let Some(attempt) = self.dice.pick(&self.attempts).cloned() else { return };
        let (id, sequence) = (attempt.join.id, self.sequence(&attempt));
        self.log.push(format!("renew {id} {sequence}"));
        let ttl = Duration::from_micros(attempt.ttl);
        let call = scripts::renew([(&self.queue, vec![(id, sequence)])], ttl, Some(self.now));
        let (_, queues) = scripts::renewed(self.bench.run(call).await).unwrap();
        let (twin, told) = self.twin.renew(self.now, id, sequence);
        let twin = self.not_before_now(twin);
        let (_, answers) = queues.into_iter().next().unwrap().unwrap();
        self.check(
            Some(id),
            match answers[..] {
                [RenewAnswer::Held] => Answer::Admitted { sequence },
                [RenewAnswer::Waiting { ahead }] => self.waiting(sequence, ahead),
                [RenewAnswer::Gone] => Answer::Gone,
                [RenewAnswer::Unfit { ref stored }] => Answer::Conflict { stored: stored.permits() },
                _ => panic!("one node, one answer: {answers:?}"),
            },
            twin,
            told,
        )
        .await;
    }

    async fn leave(&mut self) {
        let Some(attempt) = self.dice.pick(&self.attempts).cloned() else { return };
        let (id, sequence) = (attempt.join.id, self.sequence(&attempt));
        self.log.push(format!("leave {id} {sequence}"));
        let call = scripts::leave(&self.queue, id, sequence, Some(self.now));
        let (there, _) = scripts::left(self.bench.run(call).await).unwrap();
        let (twin, told) = self.twin.leave(self.now, id, sequence);
        self.check(Some(id), there, twin, told).await;
    }

    async fn abandon(&mut self) {
        let Some(attempt) = self.dice.pick(&self.attempts).cloned() else { return };
        let id = attempt.join.id;
        self.log.push(format!("abandon {id}"));
        let call = scripts::abandon(&self.queue, id, TOMBSTONE, Some(self.now));
        let (there, _) = scripts::left(self.bench.run(call).await).unwrap();
        let (twin, told) = self.twin.abandon(self.now, id);
        self.check(Some(id), there, twin, told).await;
    }

    async fn list(&mut self) {
        self.log.push("list".to_owned());
        let call = scripts::list(&self.queue, 0, 1000, Some(self.now));
        let (_, entries) = scripts::listed(self.bench.run(call).await).unwrap();
        let told = self.twin.prune(self.now);
        let listed: Vec<_> =
            entries.iter().map(|entry| (entry.sequence, entry.claim, entry.admitted)).collect();
        let twin =
            self.twin.iter().map(|(sequence, slot, admitted)| (sequence, slot.claim, admitted)).collect();
        self.check(None, listed, twin, told).await;
    }

    async fn downgrade(&mut self) {
        let Some(attempt) = self.dice.pick(&self.attempts).cloned() else { return };
        let (id, sequence) = (attempt.join.id, self.sequence(&attempt));
        self.log.push(format!("downgrade {id} {sequence}"));
        let call = scripts::downgrade(&self.queue, id, sequence, Some(self.now));
        let (is_shared, _) = scripts::left(self.bench.run(call).await).unwrap();
        let (twin, told) = self.twin.downgrade(self.now, id, sequence);
        self.check(None, is_shared, twin, told).await;
    }

    async fn set_limit(&mut self) {
        let limit = u32::try_from(1 + self.dice.roll(8)).unwrap();
        self.log.push(format!("limit {limit}"));
        let call = scripts::set_limit(&self.queue, limit, Some(self.now));
        scripts::limit_set(self.bench.run(call).await).unwrap();
        let told = self.twin.set_limit(self.now, limit);
        let stored = scripts::stored_limit(self.bench.run(scripts::limit(&self.queue)).await).unwrap();
        self.check(None, stored, self.twin.limit().into(), told).await;
    }

    /// An operator revokes what stands at a sequence number; its owner is told to look again.
    async fn revoke(&mut self) {
        let Some(attempt) = self.dice.pick(&self.attempts).cloned() else { return };
        let sequence = self.sequence(&attempt);
        self.log.push(format!("revoke {sequence}"));
        let call = scripts::revoke(&self.queue, sequence, Some(self.now));
        let (there, _) = scripts::left(self.bench.run(call).await).unwrap();
        let (twin, mut told) = self.twin.remove(self.now, sequence);
        let victim = twin.as_ref().map(|slot| slot.id);
        told.retain(|(other, _)| Some(*other) != victim);
        let nudged = victim.map(|id| (id, sequence));
        self.check_messages(None, there, twin.is_some(), told, nudged).await;
    }

    /// An operator removes a node by hand; the next script notices.
    async fn remove(&mut self) {
        let Some(attempt) = self.dice.pick(&self.attempts).cloned() else { return };
        let id = attempt.join.id;
        if self.twin.find(id) != Some(attempt.sequence) {
            return;
        }
        self.log.push(format!("remove {id}"));
        let keys: Vec<_> = self.queue.keys().map(|key| key.to_string()).collect();
        let raw = &mut self.bench.raw;
        if self.folded {
            let free = attempt.sequence.to_string();
            redis::cmd("SET").arg(&keys[4]).arg(free).arg("KEEPTTL").exec_async(raw).await.unwrap();
        } else {
            redis::cmd("ZREM").arg(&keys[0]).arg(id.to_string()).exec_async(raw).await.unwrap();
        }
        let sweep = scripts::renew([(&self.queue, Vec::new())], Duration::from_secs(1), Some(self.now));
        self.bench.run(sweep).await;
        let (_, mut told) = self.twin.remove(self.now, attempt.sequence);
        // The twin looks before it removes, and may have admitted the node for a moment.
        told.retain(|(other, _)| *other != id);
        self.check(None, (), (), told).await;
    }

    /// Mostly the right one.
    fn sequence(&mut self, attempt: &Attempt) -> u64 {
        attempt.sequence + u64::from(self.dice.roll(10) == 0)
    }

    fn waiting(&self, sequence: u64, ahead: Duration) -> Answer {
        Answer::Waiting { sequence, ahead_expires: self.now + u64::try_from(ahead.as_micros()).unwrap() }
    }

    /// What has expired and is not dropped yet expires now: the scripts know no negative durations.
    fn not_before_now(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Waiting { sequence, ahead_expires } => {
                Answer::Waiting { sequence, ahead_expires: ahead_expires.max(self.now) }
            }
            answer => answer,
        }
    }

    async fn check<T: PartialEq + std::fmt::Debug>(
        &mut self,
        caller: Option<NodeId>,
        script: T,
        twin: T,
        told: Told,
    ) {
        self.check_messages(caller, script, twin, told, None).await;
    }

    async fn check_messages<T: PartialEq + std::fmt::Debug>(
        &mut self,
        caller: Option<NodeId>,
        script: T,
        twin: T,
        told: Told,
        nudged: Option<(NodeId, u64)>,
    ) {
        let history = || self.log.join("\n");
        assert_eq!(script, twin, "script (left) and twin differ after:\n{}", history());
        let unfit = self.twin.unfit_head().filter(|(id, _)| Some(*id) != caller);
        let signed = |sequence| i64::try_from(sequence).unwrap();
        let mut expected: Vec<_> = told
            .into_iter()
            .map(|(id, sequence)| (id.to_string(), signed(sequence)))
            .chain(nudged.into_iter().chain(unfit).map(|(id, sequence)| (id.to_string(), -signed(sequence))))
            .collect();
        expected.sort_unstable();
        let heard = self.bench.told().await;
        assert_eq!(heard, expected, "told by script (left) and twin differ after:\n{}", history());
    }
}

/// With `LATCHWORK_LONG` set, as for core's models, twenty-five times as many.
async fn histories(kind: Kind, seeds: std::ops::Range<u64>, steps: usize) {
    let long = std::env::var_os("LATCHWORK_LONG").is_some_and(|value| value != "0");
    let seeds = if long { seeds.start..seeds.start + 1000 } else { seeds };
    let server = Server::start(servers::Kind::Redis, Options::new()).await.unwrap();
    let mut bench = Bench::new(server.url()).await;
    let (mut forms, seeds_run) = (Forms::default(), seeds.clone().count());
    for seed in seeds {
        let address = Address::new("differential", kind, format!("{seed}-{}", NodeId::random())).unwrap();
        let mut history = History::new(&mut bench, address, seed);
        for _ in 0..steps {
            history.step().await;
        }
        forms.add(&history.forms);
    }
    let least = seeds_run * steps / 60;
    let Forms { folded_free, folded_held, unfolded, folds, unfolds } = forms;
    let met = [folded_free, folded_held, unfolded, folds, unfolds].iter().all(|times| *times > least);
    assert!(kind == Kind::Semaphore || met, "a form was hardly met: {forms:?}");
}

#[tokio::test]
async fn exclusive_histories_agree_with_the_twin() {
    histories(Kind::Mutex, 0..40, 150).await;
}

#[tokio::test]
async fn shared_histories_agree_with_the_twin() {
    histories(Kind::RwLock, 1000..1040, 150).await;
}

#[tokio::test]
async fn permit_histories_agree_with_the_twin() {
    histories(Kind::Semaphore, 2000..2040, 150).await;
}

/// The server's clock is set back, somebody else asks, and it is set right again: the asking has shortened the node's life.
#[tokio::test]
async fn whoever_asks_while_the_clock_is_back_shortens_a_folded_node_too() {
    let server = Server::start(servers::Kind::Redis, Options::new()).await.unwrap();
    let mut bench = Bench::new(server.url()).await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        for asking in 0..4 {
            let address = Address::new("differential", kind, NodeId::random().to_string()).unwrap();
            let mut history = History::new(&mut bench, address, 7);
            let join = |patience| Join {
                queue: history.address.clone(),
                id: NodeId::random(),
                claim: Claim::Exclusive,
                limit: AskedLimit::Stored,
                label: "label".into(),
                patience,
                repeated: false,
            };
            let (held, other) = (join(Patience::Wait), join(Patience::Try));
            let attempt = |join| Attempt { join, ttl: 10 * SECOND, sequence: 0 };
            history.join(attempt(held)).await;
            history.look_at_the_form().await;
            assert!(history.folded);
            history.now -= 8 * SECOND;
            match asking {
                0 => history.join(attempt(other)).await,
                1 => history.list().await,
                2 => {
                    let held = std::mem::replace(&mut history.attempts, vec![attempt(other)]);
                    history.leave().await;
                    history.renew().await;
                    history.attempts = held;
                }
                _ => {}
            }
            history.now += 13 * SECOND;
            history.attempts.truncate(1);
            history.renew().await;
            history.list().await;
        }
    }
}

/// Twice within its TTL, and over it in all.
#[tokio::test]
async fn a_join_that_is_repeated_renews_a_folded_node() {
    let server = Server::start(servers::Kind::Redis, Options::new()).await.unwrap();
    let mut bench = Bench::new(server.url()).await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        let address = Address::new("differential", kind, NodeId::random().to_string()).unwrap();
        let mut history = History::new(&mut bench, address, 7);
        history.ttls = &TTLS[2..];
        while history.twin.is_empty() {
            history.join_new().await;
        }
        history.attempts.drain(..history.attempts.len() - 1);
        for _ in 0..3 {
            history.now += 6 * SECOND;
            history.join_again().await;
            history.look_at_the_form().await;
            assert!(history.folded && !history.twin.is_empty());
        }
        history.now += 6 * SECOND;
        history.list().await;
    }
}

/// More expire at once than one script drops: what is left of them is gone all the same.
#[tokio::test]
async fn a_crowd_that_expires_at_once_agrees_with_the_twin() {
    let server = Server::start(servers::Kind::Redis, Options::new()).await.unwrap();
    let mut bench = Bench::new(server.url()).await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        let address = Address::new("differential", kind, NodeId::random().to_string()).unwrap();
        let mut history = History::new(&mut bench, address, 7);
        history.ttls = &TTLS[..1];
        for _ in 0..1500 {
            // One after the other, so that the oldest expiry is told alike.
            history.now += 1;
            history.join_new().await;
        }
        history.now += 2 * SECOND;
        // The last are dropped last.
        history.attempts.drain(..1400);
        for _ in 0..2 {
            history.renew().await;
            history.join_again().await;
        }
        for _ in 0..40 {
            history.step().await;
        }
        history.list().await;
    }
}
