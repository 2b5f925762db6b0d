use std::sync::Arc;

use latchwork_core::backend::{Join, NodeId};

use super::context::NodeContext;
use crate::layout::{DataPlace, NodeData, Queue};
use crate::session::Session;

pub(super) struct Attempt<'a> {
    pub(super) context: &'a Arc<NodeContext>,
    pub(super) join: &'a Join,
    pub(super) queue: Queue,
    pub(super) session: Arc<Session>,
    pub(super) name: NodeId,
    pub(super) own: String,
    pub(super) tombstone: String,
    pub(super) data: NodeData,
}

impl Attempt<'_> {
    pub(super) fn place(&self) -> DataPlace {
        self.queue.data_place(self.join.claim)
    }

    pub(super) fn permits(&self) -> bool {
        self.data.is_of_permits()
    }
}
