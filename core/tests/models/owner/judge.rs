use super::ledger::Mode;
use super::{Node, NodeId, Owners, State, Task};
use crate::explore::Broken;

impl Owners {
    pub(super) fn judge(&self, state: &State) -> Option<Broken> {
        if state.revived {
            return Some(Broken::Revived);
        }
        let node = |id: NodeId| state.nodes.iter().find(|node| node.id == id);
        for task in &state.tasks {
            let Task::Holding { mode, node: id, .. } = *task else { continue };
            match node(id) {
                Some(node) if node.lost => {}
                Some(node) if mode == Mode::Exclusive && (node.mode == Mode::Shared || node.turning) => {
                    return Some(Broken::Believes);
                }
                Some(node) if !node.leaving => {}
                // The loss of the node was reported.
                None if state.losses > 0 && state.made > 1 && !state.late.is_empty() => {}
                _ => return Some(Broken::Believes),
            }
        }
        let alive = state.nodes.iter().filter(|node| !node.leaving && !node.lost);
        if alive.clone().count() > 1 {
            return Some(Broken::TwoNodes);
        }
        let acquiring =
            state.nodes.iter().any(|node| !node.admitted && !node.leaving && self.goes_on(state, node));
        let asleep = state.tasks.iter().enumerate().any(|(task, now)| {
            let waits = matches!(now, Task::Waiting { woken: false, .. });
            waits && state.kept != Some(task)
        });
        if asleep && !acquiring {
            return Some(Broken::Stuck);
        }
        // A waiter holds from its admission on.
        let held = |of: &Node, by: Mode| {
            state.tasks.iter().any(|task| match *task {
                Task::Holding { mode, node, .. } => node == of.id && mode == by,
                Task::Waiting { mode, generation, counted: true, .. } => {
                    generation == of.generation && mode == by
                }
                _ => false,
            })
        };
        for node in alive.filter(|node| node.admitted) {
            let (writes, reads) = (held(node, Mode::Exclusive), held(node, Mode::Shared));
            if !writes && !reads && state.late.is_empty() {
                return Some(Broken::Ghost);
            }
            // Readers of other owners wait for a writer that no longer writes.
            if !writes && reads && node.mode == Mode::Exclusive && !node.turning {
                return Some(Broken::Stuck);
            }
        }
        None
    }
}
