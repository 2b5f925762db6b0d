//! A Redis that is full, loads, is demoted, loses its scripts or takes rights away: what users of
//! the recipes learn, and what they keep.

mod full_memory;
mod rights;
mod server_state;
mod silence;

use std::time::Duration;

use latchwork_conformance::servers::Server;
use latchwork_core::{Coordinator, Error};

use crate::common::coordinators::at;

/// The server answers within it, on a busy machine too.
const DEADLINE: Duration = Duration::from_secs(3);

async fn user(server: &Server, options: &str) -> Result<Coordinator, Error> {
    at(&format!("{}?{options}", server.url())).await
}

/// Lets one and a half TTLs pass: a remaining hold was renewed meanwhile.
async fn outlive(coordinator: &Coordinator) {
    let lease = coordinator.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 3 / 2).await;
}
