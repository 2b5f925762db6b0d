mod chaos;
mod default_clocks;
pub(crate) mod quorum;
mod replicas;
