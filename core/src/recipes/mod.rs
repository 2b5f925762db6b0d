//! The recipes: written once, over the contracts alone.

mod mutex;

pub use mutex::{Acquire, Mutex, MutexGuard};
