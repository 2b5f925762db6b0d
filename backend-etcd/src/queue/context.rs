use std::sync::Arc;

use latchwork_core::backend::NamePool;
use tokio_util::sync::DropGuard;

use super::cleanup::Tombstones;
use crate::cell_lease::CellLeases;
use crate::driver::Driver;
use crate::lease::Leases;
use crate::watch::Watches;

#[derive(Debug)]
pub(crate) struct NodeContext {
    pub(crate) driver: Driver,
    pub(crate) leases: Arc<Leases>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) cell_leases: CellLeases,
    pub(crate) names: NamePool,
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) fast_path: bool,
    pub(crate) _tasks: DropGuard,
}
