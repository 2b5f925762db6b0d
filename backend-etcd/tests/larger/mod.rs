pub(crate) mod without_fast_path;
