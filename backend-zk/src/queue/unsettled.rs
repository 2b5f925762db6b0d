use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use latchwork_core::backend::NodeId;
use parking_lot::Mutex;

use crate::layout::{id_of, split};

/// Locked by the task that deletes other nodes of the attempt.
#[derive(Debug)]
pub(super) enum Own {
    /// A create may be under way, or an earlier node adopted.
    Unknown,
    /// The counter, which a downgrade keeps, of a node that may have left. `None`: no node.
    Known(Option<i32>),
}

pub(super) type SharedOwn = Arc<tokio::sync::Mutex<Own>>;

#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    // Attempts with an unanswered create.
    suspects: Mutex<HashMap<NodeId, Suspect>>,
    doomed: Mutex<HashSet<String>>,
}

#[derive(Debug)]
struct Suspect {
    own: SharedOwn,
    creates: u32,
}

impl Unsettled {
    /// The attempt sends nothing more: it was abandoned or refused.
    pub(super) async fn over(&self, name: NodeId) {
        self.doomed.lock().retain(|path| id_of(split(path).1) != Some(name));
        self.owns(name, Own::Known(None)).await;
    }

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

    /// `Some`: the first of its attempt, and the caller starts the search.
    pub(super) fn suspect(&self, name: NodeId) -> Option<SharedOwn> {
        let mut suspects = self.suspects.lock();
        let unknown = || Suspect { own: Arc::new(Own::Unknown.into()), creates: 0 };
        let suspect = suspects.entry(name).or_insert_with(unknown);
        suspect.creates += 1;
        (suspect.creates == 1).then(|| Arc::clone(&suspect.own))
    }

    /// Ends the suspicion if the attempt has had no more than `looked_for` unanswered creates. Returns their
    /// number.
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
