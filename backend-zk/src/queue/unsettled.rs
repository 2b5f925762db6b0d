//! The requests of joins that had no answer, and may be carried out late.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use latchwork_core::backend::NodeId;
use parking_lot::Mutex;

use crate::layout::{id_of, split};

/// What an attempt with an unanswered create owns by now. Locked by whoever deletes what it does not own.
#[derive(Debug)]
pub(super) enum Own {
    /// A create may be under way, or an earlier one be adopted.
    Unknown,
    /// The node of this counter, though it may have left; a downgrade keeps the counter. `None`: nothing.
    Known(Option<i32>),
}

pub(super) type SharedOwn = Arc<tokio::sync::Mutex<Own>>;

/// The requests of a session's joins that had no answer, and may be carried out late.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    // The attempts with an unanswered create, by their names.
    suspects: Mutex<HashMap<NodeId, Suspect>>,
    // Own nodes with an unanswered deletion, by their paths.
    doomed: Mutex<HashSet<String>>,
}

#[derive(Debug)]
struct Suspect {
    own: SharedOwn,
    // How many of its creates had no answer.
    creates: u32,
}

impl Unsettled {
    /// The attempt of this name is over: it was abandoned, or refused. It sends nothing more.
    pub(super) async fn over(&self, name: NodeId) {
        self.doomed.lock().retain(|path| id_of(split(path).1) != Some(name));
        self.owns(name, Own::Known(None)).await;
    }

    /// The node at this path is not to be used any more: its deletion may be carried out at any time.
    pub(super) fn doom(&self, path: &str) {
        self.doomed.lock().insert(path.to_owned());
    }

    pub(super) fn is_doomed(&self, path: &str) -> bool {
        self.doomed.lock().contains(path)
    }

    pub(super) async fn owns(&self, name: NodeId, own: Own) {
        let known = self.suspects.lock().get(&name).map(|suspect| Arc::clone(&suspect.own));
        if let Some(known) = known {
            *known.lock().await = own;
        }
    }

    /// Counts one more create without an answer. The first of its attempt is to be looked for.
    pub(super) fn suspect(&self, name: NodeId) -> Option<SharedOwn> {
        let mut suspects = self.suspects.lock();
        let unknown = || Suspect { own: Arc::new(Own::Unknown.into()), creates: 0 };
        let suspect = suspects.entry(name).or_insert_with(unknown);
        suspect.creates += 1;
        (suspect.creates == 1).then(|| Arc::clone(&suspect.own))
    }

    /// Forgets an attempt, unless it has had more creates without an answer than these. Answers how many.
    pub(super) fn settle(&self, name: NodeId, looked_for: u32) -> u32 {
        let mut suspects = self.suspects.lock();
        match suspects.get(&name).map(|suspect| suspect.creates) {
            Some(creates) if creates > looked_for => creates,
            _ => {
                suspects.remove(&name);
                looked_for
            }
        }
    }
}
