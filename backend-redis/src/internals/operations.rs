use std::sync::Arc;
use std::time::Duration;

use crate::scripts::{self, JoinAnswer, Looked, RenewAnswer};
use latchwork_core::Limit;
use latchwork_core::backend::decide::queue::{Answer, QueueJoin, TOMBSTONE};
use latchwork_core::backend::{ExpectedLimit, Join, NodeId, Patience};

use super::history::{Contender, ExtraNews, History};

pub(crate) const LIMIT: u32 = 4;

impl History<'_> {
    pub(crate) async fn join_new(&mut self) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.dice.roll(u64::MAX).to_be_bytes());
        let limit = match self.dice.roll(8) {
            0 => Limit::Stored,
            1 => Limit::Exactly(LIMIT + 1),
            2 => Limit::UnlessStored(LIMIT + 1),
            _ => Limit::Exactly(self.twin.limit().unwrap_or(LIMIT)),
        };
        let claim = self.claim();
        let join = Join {
            id: NodeId::from_bytes(bytes),
            label: "a label: with spaces\nand lines".into(),
            data: some_data(bytes[0]),
            patience: if self.dice.roll(4) == 0 { Patience::Try } else { Patience::Wait },
            ..self.attempt(claim, limit)
        };
        let ttl = *self.dice.pick(self.ttls).unwrap();
        self.join(Contender { join, ttl, sequence: 0 }).await;
    }

    pub(crate) async fn join_again(&mut self) {
        if let Some(contender) = self.dice.pick(&self.contenders).cloned() {
            self.join(contender).await;
        }
    }

    pub(crate) async fn join(&mut self, mut contender: Contender) {
        let Join { id, claim, limit, patience, .. } = contender.join;
        self.log.push(format!("join {id} {claim:?} {limit:?} {patience:?} ttl {}", contender.ttl));
        let ttl = Duration::from_micros(contender.ttl);
        let call = scripts::join(&self.queue, &contender.join, ttl, self.fixture.inbox()).at(self.now);
        let (answer, _, time) = scripts::joined(self.fixture.run(call).await).unwrap();
        let ask = QueueJoin { id, claim, limit, ttl: contender.ttl, patience };
        let (twin, notified) = self.twin.join(self.now, &ask);
        let twin = self.not_before_now(twin);
        let script = match answer {
            JoinAnswer::Admitted { sequence, .. } => Answer::Admitted { sequence },
            JoinAnswer::Waiting { sequence, ahead } => self.waiting(sequence, ahead),
            JoinAnswer::Refused => Answer::Refused,
            JoinAnswer::Abandoned => Answer::Gone,
            JoinAnswer::Conflict { stored } => Answer::Conflict { stored: stored.permits() },
        };
        self.check(Some(id), script, twin, notified).await;
        assert_eq!(time, i64::try_from(self.now).unwrap());
        if let Answer::Admitted { sequence } | Answer::Waiting { sequence, .. } = twin {
            self.contenders.retain(|known| known.join.id != id);
            contender.sequence = sequence;
            // A repeated join does not change data.
            self.data.entry(sequence).or_insert_with(|| contender.join.data.clone());
        }
        self.contenders.push(contender);
    }

    pub(crate) async fn renew(&mut self) {
        let Some((contender, sequence)) = self.pick() else { return };
        let id = contender.join.id;
        self.log.push(format!("renew {id} {sequence}"));
        let answer = self.renewed((id, sequence), Duration::from_micros(contender.ttl)).await;
        let (twin, notified) = self.twin.renew(self.now, id, sequence);
        let twin = self.not_before_now(twin);
        if twin == Answer::Gone {
            self.extra_news = ExtraNews::Perhaps;
        }
        let script = match answer {
            RenewAnswer::Held => Answer::Admitted { sequence },
            RenewAnswer::Waiting { ahead } => self.waiting(sequence, ahead),
            RenewAnswer::Gone => Answer::Gone,
            RenewAnswer::Unfit { stored } => Answer::Conflict { stored: stored.permits() },
            RenewAnswer::Unsettled => panic!("one script repairs a queue this short"),
        };
        self.check(Some(id), script, twin, notified).await;
    }

    pub(crate) async fn leave(&mut self) {
        let Some((contender, sequence)) = self.pick() else { return };
        let id = contender.join.id;
        self.log.push(format!("leave {id} {sequence}"));
        let there = self.was_there(scripts::leave(&self.queue, id, sequence).at(self.now)).await;
        let (twin, notified) = self.twin.leave(self.now, id, sequence);
        self.check(Some(id), there, twin, notified).await;
    }

    pub(crate) async fn abandon(&mut self) {
        let Some(contender) = self.dice.pick(&self.contenders).cloned() else { return };
        let id = contender.join.id;
        self.log.push(format!("abandon {id}"));
        let there = self.was_there(scripts::abandon(&self.queue, id, TOMBSTONE).at(self.now)).await;
        let (twin, notified) = self.twin.abandon(self.now, id);
        self.check(Some(id), there, twin, notified).await;
    }

    pub(crate) async fn list(&mut self) {
        self.log.push("list".to_owned());
        let call = scripts::list(&self.queue, 0, 1000).at(self.now);
        let (_, entries) = scripts::listed(self.fixture.run(call).await, true).unwrap();
        let notified = self.twin.prune(self.now);
        let listed =
            entries.iter().map(|entry| (entry.sequence, entry.claim, entry.admitted, entry.lease_left));
        let left = |expires| Some(Duration::from_micros(expires - self.now));
        let twin = self
            .twin
            .iter()
            .map(|(sequence, slot, admitted)| (sequence, slot.claim, admitted, left(slot.expires)));
        let (listed, twin): (Vec<_>, Vec<_>) = (listed.collect(), twin.collect());
        for entry in &entries {
            assert_eq!(entry.data, self.data[&entry.sequence], "{}", self.story());
        }
        self.check(None, listed, twin, notified).await;
    }

    pub(crate) async fn write_data(&mut self) {
        let Some((contender, sequence)) = self.pick() else { return };
        let (id, data) = (contender.join.id, some_data(u8::try_from(self.dice.roll(5)).unwrap()));
        self.log.push(format!("data {id} {sequence} {data:?}"));
        let stands = self.was_there(scripts::write_data(&self.queue, id, sequence, &data).at(self.now)).await;
        let notified = self.twin.prune(self.now);
        let twin = self.twin.find(id) == Some(sequence);
        if twin {
            self.data.insert(sequence, data);
            self.extra_news = ExtraNews::Sure;
        }
        self.check(None, stands, twin, notified).await;
    }

    pub(crate) async fn look(&mut self) {
        self.log.push("look".to_owned());
        let (looked, ..) =
            scripts::looked(self.fixture.run(scripts::look(&self.queue).at(self.now)).await).unwrap();
        let notified = self.twin.prune(self.now);
        let ends = self.twin.iter().map(|(_, slot, _)| slot.expires - self.now).min();
        let twin = ends.map_or(Looked::Nothing, |ahead| Looked::Ends(Duration::from_micros(ahead)));
        self.check(None, looked, twin, notified).await;
    }

    pub(crate) async fn downgrade(&mut self) {
        let Some((contender, sequence)) = self.pick() else { return };
        let id = contender.join.id;
        self.log.push(format!("downgrade {id} {sequence}"));
        let is_shared = self.was_there(scripts::downgrade(&self.queue, id, sequence).at(self.now)).await;
        let (twin, notified) = self.twin.downgrade(self.now, id, sequence);
        self.check(None, is_shared, twin, notified).await;
    }

    pub(crate) async fn set_limit(&mut self) {
        let limit = u32::try_from(1 + self.dice.roll(8)).unwrap();
        self.log.push(format!("limit {limit}"));
        let over = match self.dice.roll(3) {
            0 => ExpectedLimit::Any,
            1 => self.twin.limit().into(),
            _ => ExpectedLimit::Exactly(u32::try_from(1 + self.dice.roll(8)).unwrap()),
        };
        let is_over = over.is_met_by(&self.twin.limit().into());
        let call = scripts::set_limit(&self.queue, limit, over).at(self.now);
        let (was_stored, _) = scripts::was_done(self.fixture.run(call).await).unwrap();
        assert_eq!(was_stored, is_over, "{limit} over {over:?}");
        if !is_over {
            // The script has read only the limit.
            assert!(self.fixture.notified().await.is_empty(), "{limit} over {over:?}");
            return;
        }
        let notified = self.twin.set_limit(self.now, limit);
        let stored = scripts::stored_limit(self.fixture.run(scripts::limit(&self.queue)).await).unwrap();
        self.check(None, stored, self.twin.limit().into(), notified).await;
    }

    /// The script asks the owner of the revoked node to recheck.
    pub(crate) async fn revoke(&mut self) {
        let Some((_, sequence)) = self.pick() else { return };
        self.log.push(format!("revoke {sequence}"));
        let there = self.was_there(scripts::revoke(&self.queue, sequence).at(self.now)).await;
        let (twin, mut notified) = self.twin.remove(self.now, sequence);
        let victim = twin.as_ref().map(|slot| slot.id);
        notified.retain(|(other, _)| Some(*other) != victim);
        let rechecked = victim.map(|id| (id, sequence));
        self.check_messages(None, there, twin.is_some(), notified, rechecked).await;
    }

    /// An operator removes a node by hand, and the next script finds this.
    pub(crate) async fn remove(&mut self) {
        let Some(contender) = self.dice.pick(&self.contenders).cloned() else { return };
        let id = contender.join.id;
        if self.twin.find(id) != Some(contender.sequence) {
            return;
        }
        self.log.push(format!("remove {id}"));
        let keys: Vec<_> = self.queue.keys().map(|key| key.to_string()).collect();
        if self.folded {
            let free = contender.sequence.to_string();
            self.fixture.raw::<()>(redis::cmd("SET").arg(&keys[4]).arg(free).arg("KEEPTTL")).await.unwrap();
        } else {
            self.fixture.raw::<()>(redis::cmd("ZREM").arg(&keys[0]).arg(id.to_string())).await.unwrap();
        }
        self.sweep().await;
        let (_, mut notified) = self.twin.remove(self.now, contender.sequence);
        self.extra_news = ExtraNews::Perhaps;
        // The twin admits before it removes, and may have admitted this node for a moment.
        notified.retain(|(other, _)| *other != id);
        self.check(None, (), (), notified).await;
    }
}

/// Nothing, or text with spaces and any bytes.
fn some_data(choice: u8) -> Arc<[u8]> {
    let data = [&b""[..], b"data", b" with spaces\nand lines ", b"\0", b"x 1 1 1 a@b \0\xff"];
    data[usize::from(choice) % data.len()].into()
}
