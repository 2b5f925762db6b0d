//! Cases of the suite once more: on clients without the fast path, and on a server with idle cells.

pub(crate) mod idle_cells;
pub(crate) mod without_fast_path;
