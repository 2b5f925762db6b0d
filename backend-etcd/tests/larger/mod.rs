//! Cases of the suite once more, on clients without the fast path.

pub(crate) mod without_fast_path;
