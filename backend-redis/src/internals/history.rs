use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::decide::queue::{Answer, Queue as Twin, TOMBSTONE};
use latchwork_core::backend::{Join, NodeId, Patience};
use latchwork_core::{Address, Claim, Kind, Limit, Result};

use super::dice::Dice;
use super::fixture::{FAR, Fixture, TICK};
use super::forms::Forms;
use crate::layout::{QueueKeys, Shape};
use crate::scripts::{self, Call, JoinAnswer, RenewAnswer};

pub(crate) const TTLS: [u64; 3] = [TICK, 3 * TICK, 10 * TICK];

pub(crate) type Notified = Vec<(NodeId, u64)>;

#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) join: Join,
    pub(crate) ttl: u64,
    pub(crate) sequence: u64,
}

pub(crate) struct History<'a> {
    pub(crate) fixture: &'a Fixture,
    pub(crate) forms: Forms,
    pub(crate) folded: bool,
    // Mostly one client at a time.
    quiet: bool,
    pub(crate) queue: QueueKeys,
    pub(crate) twin: Twin,
    pub(crate) dice: Dice,
    pub(crate) ttls: &'static [u64],
    pub(crate) now: u64,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) address: Address,
    pub(crate) log: Vec<String>,
    pub(crate) data: HashMap<u64, Arc<[u8]>>,
    // Sequence number, claim, and whether admitted, at the last notification.
    seen: Vec<(u64, Claim, bool)>,
    pub(crate) extra_news: ExtraNews,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExtraNews {
    #[default]
    None,
    Sure,
    Perhaps,
}

impl<'a> History<'a> {
    pub(crate) fn new(fixture: &'a Fixture, address: Address, seed: u64) -> Self {
        Self {
            fixture,
            forms: Forms::default(),
            folded: false,
            quiet: seed.is_multiple_of(2),
            queue: QueueKeys::of(&address).unwrap(),
            twin: Twin::new(),
            dice: Dice(seed),
            ttls: &TTLS,
            now: 1_763_690_000_000_000,
            contenders: Vec::new(),
            address,
            log: vec![format!("seed {seed}")],
            data: HashMap::new(),
            seen: Vec::new(),
            extra_news: ExtraNews::None,
        }
    }

    pub(crate) async fn step(&mut self) {
        if self.quiet {
            // Leaves must meet their nodes.
            let gone = self.contenders.len().saturating_sub(3);
            self.contenders.drain(..gone);
        }
        match self.dice.roll(24) {
            // A queue folds only without contention, so half of the histories are quiet.
            0..=5 if self.quiet && !self.twin.is_empty() && self.dice.roll(4) > 0 => self.renew().await,
            15 if self.quiet && self.dice.roll(4) > 0 => self.outlive_tombstones(),
            0..=5 => self.join_new().await,
            6 => self.join_again().await,
            7..=10 => self.renew().await,
            11..=14 => self.leave().await,
            15 => self.abandon().await,
            16 if self.address.kind().is_observed() && self.dice.roll(2) == 0 => self.look().await,
            16 => self.list().await,
            17 => self.remove().await,
            18 => self.revoke().await,
            19..=21 => match self.address.kind() {
                Kind::RwLock => self.downgrade().await,
                Kind::Semaphore => self.set_limit().await,
                kind if kind.is_observed() => self.write_data().await,
                _ => self.pass_time(),
            },
            _ => self.pass_time(),
        }
        self.check_form().await;
    }

    pub(crate) fn pass_time(&mut self) {
        match self.dice.roll(12) {
            0 => self.now -= self.dice.roll(3 * TICK),
            1 => self.now += self.dice.roll(12 * TICK),
            _ => self.now += self.dice.roll(TICK),
        }
        self.log.push(format!("now {}", self.now));
    }

    /// A clock step must not revive them.
    pub(crate) fn outlive_tombstones(&mut self) {
        self.now += 2 * u64::try_from(TOMBSTONE.as_micros()).unwrap();
        self.log.push(format!("now {}", self.now));
    }

    pub(crate) fn claim(&mut self) -> Claim {
        match (self.address.kind(), self.dice.roll(3)) {
            (Kind::Semaphore, _) => Claim::Permits(u32::try_from(1 + self.dice.roll(5)).unwrap()),
            (kind, 1..) if kind.takes_shared() => Claim::Shared,
            _ => Claim::Exclusive,
        }
    }

    /// A folded queue has no other key, and only a live tombstone keeps an empty one unfolded.
    pub(crate) async fn check_form(&mut self) {
        let keys: Vec<_> = self.queue.keys().map(|key| key.to_string()).collect();
        if self.queue.shape == Shape::Permits {
            return;
        }
        let (one, rest) = (&keys[4], keys[..4].iter().chain(&keys[5..]));
        let text: Option<Vec<u8>> = self.fixture.raw(redis::cmd("GET").arg(one)).await.unwrap();
        let others: u32 = self.fixture.raw(redis::cmd("EXISTS").arg(rest.collect::<Vec<_>>())).await.unwrap();
        let folded = text.is_some();
        assert!(!folded || others == 0, "the queue exists both folded and unfolded, {}", self.story());
        let used = self.twin.last_sequence() > 0;
        assert!(folded || !used || !self.twin.is_forgettable(self.now), "not folded {}", self.story());
        match &text {
            None => self.forms.unfolded += usize::from(others > 0),
            Some(text) if text.contains(&b' ') => self.forms.folded_held += 1,
            Some(_) => self.forms.folded_free += 1,
        }
        self.forms.folds += usize::from(folded && !self.folded);
        self.forms.unfolds += usize::from(!folded && self.folded);
        self.folded = folded;
    }

    /// One of ten sequence numbers is wrong.
    pub(crate) fn pick(&mut self) -> Option<(Contender, u64)> {
        let contender = self.dice.pick(&self.contenders)?.clone();
        let sequence = contender.sequence + u64::from(self.dice.roll(10) == 0);
        Some((contender, sequence))
    }

    pub(crate) fn attempt(&self, claim: Claim, limit: Limit) -> Join {
        Join {
            queue: self.address.clone(),
            id: NodeId::random(),
            claim,
            limit,
            label: "label".into(),
            data: Default::default(),
            patience: Patience::Wait,
            repeated: false,
        }
    }

    pub(crate) async fn try_join(&self, join: &Join) -> Result<JoinAnswer> {
        let call = scripts::join(&self.queue, join, FAR, self.fixture.inbox()).at(self.now);
        let answered = self.fixture.try_run(call).await.and_then(scripts::joined);
        answered.map(|(answer, ..)| answer)
    }

    /// The twin gets no request.
    pub(crate) async fn renewed(&self, node: (NodeId, u64), ttl: Duration) -> RenewAnswer {
        let call = scripts::renew([(&self.queue, vec![node])], ttl).at(self.now);
        let (_, queues) = scripts::renewed(self.fixture.run(call).await).unwrap();
        let (_, answers) = queues.into_iter().next().unwrap().unwrap();
        let [answer] = <[_; 1]>::try_from(answers).expect("an answer for each node");
        answer
    }

    pub(crate) async fn sweep(&self) {
        let sweep = scripts::renew([(&self.queue, Vec::new())], Duration::from_secs(1)).at(self.now);
        self.fixture.run(sweep).await;
    }

    pub(crate) async fn was_there(&self, call: Call) -> bool {
        scripts::was_done(self.fixture.run(call).await).unwrap().0
    }

    pub(crate) fn story(&self) -> String {
        format!("after:\n{}", self.log.join("\n"))
    }

    pub(crate) fn waiting(&self, sequence: u64, ahead: Duration) -> Answer {
        Answer::Waiting { sequence, ahead_expires: self.now + u64::try_from(ahead.as_micros()).unwrap() }
    }

    /// The scripts have no negative durations.
    pub(crate) fn not_before_now(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Waiting { sequence, ahead_expires } => {
                Answer::Waiting { sequence, ahead_expires: ahead_expires.max(self.now) }
            }
            answer => answer,
        }
    }

    pub(crate) async fn check<T: PartialEq + Debug>(
        &mut self,
        caller: Option<NodeId>,
        script: T,
        twin: T,
        notified: Notified,
    ) {
        self.check_messages(caller, script, twin, notified, None).await;
    }

    /// `rechecked`: the node whose owner also gets a re-check message.
    pub(crate) async fn check_messages<T: PartialEq + Debug>(
        &mut self,
        caller: Option<NodeId>,
        script: T,
        twin: T,
        notified: Notified,
        rechecked: Option<(NodeId, u64)>,
    ) {
        assert_eq!(script, twin, "script (left) and twin differ {}", self.story());
        let unfit = self.twin.unfit_head().filter(|(id, _)| Some(*id) != caller);
        let signed = |sequence| i64::try_from(sequence).unwrap();
        let mut expected: Vec<_> = notified
            .into_iter()
            .map(|(id, sequence)| (id.to_string(), signed(sequence)))
            .chain(
                rechecked.into_iter().chain(unfit).map(|(id, sequence)| (id.to_string(), -signed(sequence))),
            )
            .collect();
        expected.sort_unstable();
        let published = self.fixture.notified().await;
        assert_eq!(published, expected, "notified by script (left) and twin differ {}", self.story());
        self.check_news();
    }

    fn check_news(&mut self) {
        let told = self.fixture.told(&self.queue);
        let nodes =
            self.twin.iter().map(|(sequence, slot, admitted)| (sequence, slot.claim, admitted)).collect();
        let has_changed = std::mem::replace(&mut self.seen, nodes) != self.seen;
        let extra = std::mem::take(&mut self.extra_news);
        if self.address.kind().is_observed() && extra != ExtraNews::Perhaps {
            let expected = usize::from(has_changed || extra == ExtraNews::Sure);
            assert_eq!(told, expected, "the messages of script (left) and twin differ {}", self.story());
        }
    }
}
