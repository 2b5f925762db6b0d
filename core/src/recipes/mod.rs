//! The recipes: written once, over the contracts alone.

mod acquire;
mod mutex;
mod reentrant;
mod rwlock;
mod semaphore;

pub use acquire::Acquire;
pub use mutex::{Mutex, MutexGuard};
pub use reentrant::{ReentrantGuard, ReentrantMutex};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
