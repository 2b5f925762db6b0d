//! Moves on memory, under paused time, with played members.

mod back;
mod gate;
mod held;
mod killed;
mod limits;
mod losses;
mod lost;
mod markers;
mod member;
mod mortal;
mod plan;
mod repair;
mod sides;
mod steps;
mod traffic;
mod values;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Move, MoveProgress, MoveState, MoveStatus};
use crate::clock::Clock;
use crate::config::{Config, MoveConfig};
use crate::connect::connect;
use crate::connector::Connector;
use crate::contracts::Backend;
use crate::coordinator::Coordinator;
use crate::decide::moving::MovePhase;
use crate::error::Result;
use crate::memory::Memory;

#[derive(Debug)]
struct Stores {
    old: Memory,
    new: Memory,
}

/// Connects to the stores `old` and `new`.
#[derive(Debug)]
struct Stored(Arc<Stores>);

struct Bed {
    stores: Arc<Stores>,
    config: MoveConfig,
}

impl Stored {
    /// A host whose name begins with `old` is the old store.
    fn store(&self, config: &Config) -> &Memory {
        if config.hosts[0].starts_with("old") { &self.0.old } else { &self.0.new }
    }
}

#[async_trait]
impl Connector for Stored {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn clock(&self, _config: &Config) -> Clock {
        Clock::tokio()
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(self.store(config).client(config)?.0)
    }
}

impl Bed {
    fn new() -> Self {
        let store = || Memory::new(Clock::tokio());
        let at = |url| Config::from_url(url).expect("a good URL");
        let config = MoveConfig::new(at("memory://old?namespace=a"), at("memory://new?namespace=b"), "m");
        Self { stores: Arc::new(Stores { old: store(), new: store() }), config }
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![Arc::new(Stored(Arc::clone(&self.stores)))]
    }

    async fn operator(&self) -> Move {
        Move::connect(&self.connectors(), &self.config).await.expect("connected")
    }

    async fn participant(&self, label: &str) -> Coordinator {
        let config = Config { label: Some(label.to_owned()), ..Config::of_move(self.config.clone()) };
        connect(&self.connectors(), &config).await.expect("connected")
    }

    async fn plain(&self, of: &Config, label: &str) -> Result<Coordinator> {
        connect(&self.connectors(), &Config { label: Some(label.to_owned()), ..of.clone() }).await
    }

    async fn plain_on_old(&self, label: &str) -> Result<Coordinator> {
        self.plain(&self.config.from, label).await
    }

    async fn plain_on_new(&self, label: &str) -> Result<Coordinator> {
        self.plain(&self.config.to, label).await
    }
}

/// Ends a call that waits without an end.
const LONG: Duration = Duration::from_secs(3600);

fn ignored(_: &MoveProgress<'_>) {}

async fn state(of: &Move) -> (MoveState, MovePhase) {
    let MoveStatus { state, phase, .. } = of.status().await.expect("readable");
    (state, phase)
}

/// Takes steps forward until this phase.
async fn goes_to(of: &Move, phase: MovePhase) {
    while of.status().await.expect("readable").phase != phase {
        of.advance(ignored).await.expect("a step");
    }
}
