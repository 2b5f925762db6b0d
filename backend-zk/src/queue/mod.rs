//! The plain protocol is complete without [`fast_path`].

mod admission;
mod cleanup;
mod created;
mod data;
mod downgrade;
mod fast_path;
mod held_write;
mod join;
mod late;
mod limit;
mod list;
mod node;
mod queues;
mod session;
mod unsettled;
mod wait;
mod woken;
mod zk_node;

pub(crate) use admission::mark_admitted;
pub(crate) use cleanup::abandon;
pub(crate) use fast_path::{FastPath, WatchSessions, believes_announcements, is_open, verify_admission};
pub(crate) use join::join;
pub(crate) use limit::{limit, limited, set_limit};
pub(crate) use list::{list, revoke};
pub(crate) use queues::queues;
pub(crate) use session::Session;
pub(crate) use unsettled::Unsettled;
pub(crate) use zk_node::ZkNode;

#[cfg(test)]
pub(crate) use {
    fast_path::{Birth, History},
    limit::WrittenLimit,
};
