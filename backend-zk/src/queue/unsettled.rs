use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use latchwork_core::backend::NodeId;
use parking_lot::Mutex;

use crate::layout::{id_of, split};

/// A task that deletes other nodes of the attempt holds its lock.
#[derive(Debug)]
pub(super) enum Own {
    /// A create may be under way, or an earlier node may be adopted.
    Unknown,
    /// By its counter, which a downgrade keeps. It may have left. `None`: no node.
    Known(Option<i32>),
}

pub(super) type SharedOwn = Arc<tokio::sync::Mutex<Own>>;

/// Requests of a session's joins that had no answer and may be carried out late.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    // Attempts with an unanswered create.
    suspects: Mutex<HashMap<NodeId, Suspect>>,
    // Paths with an unanswered deletion.
    doomed: Mutex<HashSet<String>>,
}

#[derive(Debug)]
struct Suspect {
    own: SharedOwn,
    creates: u32,
}

impl Unsettled {
    /// The attempt was abandoned or refused, and sends nothing more.
    pub(super) async fn over(&self, name: NodeId) {
        self.doomed.lock().retain(|path| id_of(split(path).1) != Some(name));
        self.owns(name, Own::Known(None)).await;
    }

    /// The deletion of the node may be carried out at any time.
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

    /// Unless it has had more than this number of creates without an answer. Returns their number.
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
