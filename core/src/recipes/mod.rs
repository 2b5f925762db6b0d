//! The recipes, written once over the contracts alone.

mod acquire;
mod guards;
mod member;
mod multi_lock;
mod mutex;
mod queue_handle;
mod reentrant;
mod rwlock;
mod semaphore;
mod under;
mod verb;

pub use acquire::Acquire;
pub use guards::{ReadGuard, WriteGuard};
pub use member::Member;
pub use multi_lock::{MultiGuard, MultiLock};
pub use mutex::{Mutex, MutexGuard};
pub(crate) use queue_handle::QueueHandle;
pub use reentrant::{ReentrantGuard, ReentrantMutex};
pub use rwlock::RwLock;
pub use semaphore::{Permit, Semaphore};
