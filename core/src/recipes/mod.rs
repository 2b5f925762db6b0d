//! The recipes, written once over the contracts alone.

mod acquire;
mod ask;
mod barrier;
mod cell_handle;
mod count_attempt;
mod count_cell;
mod count_down_latch;
mod count_operations;
mod count_request;
mod count_tries;
mod counter;
mod election;
mod gate;
mod group;
mod group_changes;
mod group_member;
mod guards;
mod handles;
mod hold;
mod id_generator;
mod leadership;
mod member;
mod multi_gathering;
mod multi_guard;
mod multi_lock;
mod multi_members;
mod mutex;
mod node_data;
mod queue_handle;
mod quorum_gathering;
mod quorum_guard;
mod quorum_lock;
mod quorum_members;
mod rwlock;
mod semaphore;
mod server_count;
mod shared_value;
mod watch;
mod watcher;

pub use acquire::{Acquire, Acquired, Acquiring, Take};
pub use ask::Ask;
pub use barrier::{Barrier, DoubleBarrier};
pub(crate) use cell_handle::CellHandle;
pub use count_down_latch::CountDownLatch;
pub use counter::Counter;
pub use election::Election;
pub use group::Group;
pub use group_changes::GroupChanges;
pub use group_member::GroupMember;
pub use guards::{
    Fenced, Guard, Inside, Leadership, Membership, MultiGuard, MutexGuard, Permit, QuorumGuard, ReadGuard,
    Reentrant, WriteGuard,
};
pub use hold::Hold;
pub use id_generator::IdGenerator;
pub use leadership::Leader;
pub use member::MultiMember;
pub use multi_lock::MultiLock;
pub use mutex::Mutex;
pub(crate) use queue_handle::QueueHandle;
pub use quorum_lock::QuorumLock;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use shared_value::{Compared, SharedValue};
pub use watch::Watch;
