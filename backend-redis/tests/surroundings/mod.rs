mod full_memory;
mod refused_writes;
mod rights;
mod server_state;
mod silence;

use std::time::Duration;

use latchwork_conformance::servers::Server;
use latchwork_core::{Coordinator, Result};

use crate::common::coordinators::at;

/// The server answers within this time, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(3);

async fn user(server: &Server, options: &str) -> Result<Coordinator> {
    at(&format!("{}?{options}", server.url())).await
}

/// A remaining hold was renewed during this.
async fn outlive(coordinator: &Coordinator) {
    crate::common::outlive(&coordinator.lease(), 1.5).await;
}
