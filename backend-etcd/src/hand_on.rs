//! How a node that leaves a long queue lets the next one know.
//!
//! *Protocol.* In a mutex' queue the leave of a node that joined behind [`MANY`](crate::view::MANY) or more is ONE transaction: IF the node is the
//! one that was made AND the node behind it is the one that was listed THEN delete the node, and write to the other one's inbox that it
//! is the next (if the node had been admitted), or that it is to look (if it was waiting behind a node that may leave in silence). Where
//! nobody stands behind it, the transaction compares that nobody has joined since the listing. If a comparison fails, its other
//! branch lists who stands behind now, and the leave is tried again. What is said carries the nodes after the next one too,
//! so that not each of them has to list those behind it: mostly the next one knows whom to hand on to when it is admitted.
//!
//! Each client watches ONE prefix for all its inboxes, for as long as it waits in such queues. So it hears at once, whoever it
//! waits behind: etcd serves a new watch late where it starts in the past.
//!
//! *Why it is safe.* Only a node that was admitted says "next", in the transaction that deletes it: nobody was before it. Nobody stood
//! between it and the next one at the listing, and nobody comes between later, since create revisions only grow. The next one was there at
//! the revision of that transaction, so whoever is spoken to need not look at its own node; if it is removed later it is told like any
//! holder. What is said names the node's revision, and a node believes it before its own deadline only (RULES B1, B3).
//!
//! *Why nobody is forgotten.* Whoever is behind [`MANY`](crate::view::MANY) others relies on being spoken to. The node right before it
//! was behind all of them but itself when it joined, so that it speaks. A node that gives up while it relies on that itself leaves in
//! silence: the node before it finds, when it leaves, whoever is behind it then. That takes nobody's time. Whoever leaves in
//! another way (its lease has ended, it was removed, its server was full) is seen by the watch that the node behind it has on its key.

use latchwork_core::ErrorKind;
use serde::{Deserialize, Serialize};

use crate::error::{Answer, Failure};
use crate::keys::Queue;
use crate::nodes::{EtcdNode, created};
use crate::terms::{Entry, Found, Guard, Order, Range, Step};

/// How many nodes a listing of those behind takes in.
const LISTED: usize = 8;
/// How often a leave is tried because others came and went meanwhile. Each time somebody got on.
const ROUNDS: usize = 16;

/// A node behind another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Follower {
    /// Its key without the queue's prefix.
    pub(crate) name: String,
    pub(crate) created: u64,
}

/// What a node says to the one behind it when it leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// The create revision of the node that is spoken to.
    pub(crate) to: u64,
    pub(crate) word: Word,
    /// Who was behind it, in order; not all of them, and some may have left since.
    pub(crate) behind: Vec<Follower>,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    /// All before it have left.
    Next,
    /// The one before it has left, and was waiting.
    Look,
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }

    /// `None` where it is nothing that a client of this version says.
    pub(crate) fn parse(said: &[u8]) -> Option<Self> {
        let mut message: Self = serde_json::from_slice(said).ok()?;
        // It is passed on: no more than a client of this version says.
        message.behind.truncate(LISTED);
        Some(message)
    }
}

/// How a node leaves its queue.
#[derive(Clone, Debug)]
pub(crate) struct HandOn {
    pub(crate) queue: Queue,
    pub(crate) word: Word,
    /// As it was told; empty where nothing is known.
    pub(crate) behind: Vec<Follower>,
    /// It may leave in silence, unless it was spoken to.
    pub(crate) silent: bool,
}

impl HandOn {
    /// Leaves, and answers whether the node was there: `None` where nothing was done, since a narrow role may not write there.
    pub(crate) async fn leave(self, node: &EtcdNode) -> Answer<Option<bool>> {
        let inbox = self.queue.place_of(&node.own.key);
        match self.speak(node).await {
            Ok(was_there) => Ok(Some(was_there)),
            // It takes deletions alone.
            Err(Failure::Full(_)) => {
                let keys = [Some(node.own.key.to_vec()), inbox.map(|inbox| inbox.key.into_bytes())];
                let steps = keys.into_iter().flatten().map(Step::Delete).collect();
                let guards = vec![created(&node.own)];
                Ok(Some(node.client.driver.transact(guards, steps, Vec::new()).await?.held))
            }
            Err(Failure::Other(error)) if matches!(error.kind(), ErrorKind::Forbidden { .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn speak(self, node: &EtcdNode) -> Answer<bool> {
        let (driver, own) = (&node.client.driver, &node.own);
        let Some(inbox) = self.queue.place_of(&own.key) else { return driver.delete(&own.key).await };
        let delete = || vec![Step::Delete(own.key.to_vec()), Step::Delete(inbox.key.clone().into_bytes())];
        let look = || vec![Step::Get(own.key.to_vec()), Step::Range(self.behind(own.state.sequence()))];
        let mut behind = self.behind.clone();
        let mut listed = None;
        if self.silent {
            // What was said to it was said after its join.
            let unheard = Guard::Unwritten(inbox.key.clone(), own.state.sequence());
            let outcome = driver.transact(vec![created(own), unheard], delete(), look()).await?;
            // Otherwise an earlier request of this leave was carried out, or somebody has removed it.
            if outcome.held || !outcome.reads.first().is_some_and(|read| own.is_in(read)) {
                return Ok(outcome.held);
            }
            (behind, listed) = (self.followers(outcome.reads.last()), Some(outcome.revision));
        }
        for _ in 0..ROUNDS {
            let mut guards = vec![created(own)];
            let mut steps = delete();
            match (behind.split_first(), listed) {
                (Some((next, rest)), _) => {
                    let key = format!("{}{}", self.queue.prefix, next.name).into_bytes();
                    if let Some(its) = self.queue.place_of(&key) {
                        let said = Message { to: next.created, word: self.word, behind: rest.to_vec() };
                        steps.push(Step::Put { key: its.key, value: said.encode(), lease: its.lease });
                    }
                    guards.push(Guard::Created(key, next.created));
                }
                (None, Some(revision)) => {
                    guards.push(Guard::Unwritten(self.queue.prefix.clone(), revision));
                }
                (None, None) => {
                    let (found, revision) = driver.range(self.behind(own.state.sequence())).await?;
                    (behind, listed) = (self.followers(Some(&found)), Some(revision));
                    continue;
                }
            }
            let outcome = driver.transact(guards, steps, look()).await?;
            // Otherwise an earlier request of this leave was carried out, or somebody has removed it.
            if outcome.held || !outcome.reads.first().is_some_and(|read| own.is_in(read)) {
                return Ok(outcome.held);
            }
            (behind, listed) = (self.followers(outcome.reads.last()), Some(outcome.revision));
        }
        // Whoever is behind it watches its key.
        Ok(driver.transact(vec![created(own)], delete(), Vec::new()).await?.held)
    }

    fn behind(&self, created: u64) -> Range {
        let order = Order::Behind(created);
        Range { prefix: self.queue.prefix.clone(), order, limit: LISTED as i64, keys_only: true }
    }

    /// Those that were found behind, without what is no node of a queue like this.
    fn followers(&self, found: Option<&Found>) -> Vec<Follower> {
        let named = |entry: &Entry| {
            self.queue.claim(entry)?;
            let key = std::str::from_utf8(&entry.key).ok()?;
            let name = key.strip_prefix(self.queue.prefix.as_str())?;
            Some(Follower { name: name.to_owned(), created: entry.created })
        };
        let entries = found.map_or(&[][..], |found| &found.entries);
        entries.iter().filter_map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_and_what_is_none_says_nothing() {
        let behind = vec![Follower { name: "1f-x".to_owned(), created: 9 }];
        for word in [Word::Next, Word::Look] {
            let message = Message { to: 7, word, behind: behind.clone() };
            let said = message.encode();
            assert!((0..said.len()).all(|cut| Message::parse(&said[..cut]).is_none()));
            assert_eq!(Message::parse(&said), Some(message));
        }
        let many = Message { to: 7, word: Word::Next, behind: vec![behind[0].clone(); 1000] };
        assert_eq!(Message::parse(&many.encode()).unwrap().behind.len(), LISTED);
        for said in [&b""[..], b"7", b"{}", b"{\"to\":-1,\"word\":\"next\",\"behind\":[]}", b"\xff"] {
            assert_eq!(Message::parse(said), None);
        }
    }
}
