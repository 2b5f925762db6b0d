use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::decide::queue::TOMBSTONE;
use latchwork_core::backend::{Close, CloseOnce, NamePool};
use latchwork_core::{LostReason, Result};
use tokio_util::sync::CancellationToken;

use crate::cell_lease::CellLeases;
use crate::driver::Driver;
use crate::layout::Layout;
use crate::lease::Leases;
use crate::queue::cleanup::Tombstones;
use crate::queue::context::NodeContext;
use crate::session::revoke_in_time;
use crate::watch::{Watches, recheck, stream};

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) layout: Layout,
    /// Shared with the nodes: the client's tasks run while any node exists.
    pub(crate) nodes: Arc<NodeContext>,
    closing: CloseOnce,
}

impl Client {
    pub(crate) async fn open(
        driver: Driver,
        layout: Layout,
        ttl: Duration,
        fast_path: bool,
        operator: bool,
    ) -> Result<Self> {
        let closed = CancellationToken::new();
        let tasks = closed.clone().drop_guard();
        let leases = Leases::open(driver.clone(), ttl, closed.clone(), operator).await?;
        let (watches, commands) = Watches::new();
        let lease = leases.current().lease.lease().clone();
        let clock = lease.clock().clone();
        let stream = stream::run(driver.clone(), Arc::clone(&watches), commands, clock.clone());
        tokio::spawn(closed.clone().run_until_cancelled_owned(stream));
        let recheck = recheck::run(driver.clone(), Arc::clone(&watches), lease);
        tokio::spawn(closed.clone().run_until_cancelled_owned(recheck));
        let runtime = leases.runtime.clone();
        let tombstones = Tombstones::new(driver.clone(), layout.clone(), clock, runtime, closed, TOMBSTONE);
        let cell_leases = CellLeases::new(driver.clone(), leases.clock.clone());
        let nodes = NodeContext {
            driver,
            leases: Arc::new(leases),
            watches,
            cell_leases,
            names: NamePool::default(),
            tombstones,
            fast_path,
            _tasks: tasks,
        };
        Ok(Self { layout, nodes: Arc::new(nodes), closing: CloseOnce::default() })
    }

    /// Revokes the client's lease if the close is orderly.
    pub(crate) async fn close(&self, how: Close) -> Result<()> {
        let (leases, driver) = (&self.nodes.leases, &self.nodes.driver);
        let begin = || {
            leases.stop();
            let session = leases.current();
            // The lease of a client that crashed expires on the server.
            let orderly = how == Close::Orderly;
            if orderly {
                session.lease.end(LostReason::Closed);
            }
            let driver = driver.clone();
            async move { if orderly { revoke_in_time(&driver, &session).await } else { Ok(()) } }
        };
        self.closing.close(&leases.runtime, driver.request_timeout, begin).await
    }
}
