pub(crate) mod idle_cells;
pub(crate) mod without_fast_path;
