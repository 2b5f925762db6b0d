use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Config, Connector, Error, MoveConfig, connect};
use latchwork_servers::Server;
use latchwork_servers::proxy::Proxy;

use super::counted::COUNTER;
use super::ends::Ends;
use crate::failover::{TTL, noise};
use crate::testbed::{Fixture, Testbed, left_at};
use crate::testbeds::ServerTestbed;

const NAME: &str = "there-and-back";
/// After the end of leases.
const GRACE: Duration = Duration::from_secs(3);

/// One server of a move, with its own namespace.
#[derive(Debug)]
pub struct MovingSide {
    server: Server,
    testbed: ServerTestbed,
}

impl MovingSide {
    /// Creates a side.
    pub fn new(server: Server, testbed: ServerTestbed) -> Self {
        Self { server, testbed }
    }

    /// Creates a side in another namespace of the server, which ends with this side.
    pub fn beside(&self) -> Self {
        let Self { server, testbed } = self;
        Self { server: Server::at(server.kind(), server.url(), server.clocks()), testbed: testbed.clone() }
    }
}

pub(super) struct Side {
    pub(super) server: Server,
    testbed: ServerTestbed,
    fixture: Box<dyn Fixture>,
    /// Of participants.
    pub(super) way: Proxy,
    /// Of operators. All use one, because the markers have its URL.
    pub(super) door: Proxy,
}

impl Side {
    async fn open(MovingSide { server, testbed }: MovingSide) -> Result<Self, String> {
        let fixture = testbed.fixture().await.map_err(|error| error.to_string())?;
        let proxy = async || Proxy::start(server.addr()).await.map_err(|error| error.to_string());
        let (way, door) = (proxy().await?, proxy().await?);
        Ok(Self { server, testbed, fixture, way, door })
    }

    fn config(&self, by: &Proxy) -> Config {
        let mut config = self.fixture.process_config().expect("a server has processes");
        (config.hosts, config.ttl) = (vec![by.addr().to_string()], TTL);
        config
    }

    pub(super) async fn takes_count(&self) -> Result<i64, String> {
        let taken = async {
            let plain = connect(&self.testbed.connectors(), &self.config(&self.door)).await?;
            let counter = plain.counter(COUNTER)?;
            let total = counter.get().await?;
            counter.delete().await?;
            plain.close().await?;
            Ok::<_, Error>(total)
        };
        taken.await.map_err(|error| format!("the counter after a move: {error}"))
    }

    pub(super) fn recovery(&self) -> Duration {
        TTL + self.fixture.expiry_bound()
    }
}

pub(super) struct Sides {
    pub(super) old: Side,
    pub(super) new: Side,
}

impl Sides {
    pub(super) async fn open(old: MovingSide, new: MovingSide) -> Result<Self, String> {
        Ok(Self { old: Side::open(old).await?, new: Side::open(new).await? })
    }

    pub(super) fn name(&self) -> String {
        match self.old.server.addr() == self.new.server.addr() {
            true => format!("{} to another namespace of it", self.old.testbed.name),
            false => format!("{} to {}", self.old.testbed.name, self.new.testbed.name),
        }
    }

    pub(super) fn participants(&self) -> Config {
        let (old, new) = (self.old.config(&self.old.way), self.new.config(&self.new.way));
        Config::of_move(MoveConfig::new(old, new, NAME))
    }

    pub(super) fn operators(&self) -> MoveConfig {
        MoveConfig::new(self.old.config(&self.old.door), self.new.config(&self.new.door), NAME)
    }

    pub(super) fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        self.old.testbed.connectors().into_iter().chain(self.new.testbed.connectors()).collect()
    }

    /// Nodes may be on both sides.
    pub(super) fn recovery(&self) -> Duration {
        self.old.recovery() + self.new.recovery()
    }

    /// From the last death. Leases on both sides end at the same time.
    pub(super) fn step_bound(&self) -> Duration {
        self.old.recovery().max(self.new.recovery()) + noise()
    }

    /// On Redis keys outlive their nodes by these nodes' life and a second.
    pub(super) async fn nothing_is_left(&self, ends: Ends) -> Result<(), String> {
        for (word, side) in [("old", &self.old), ("new", &self.new)] {
            let left = left_at(&*side.fixture, side.recovery() * 2 + GRACE).await;
            let mut left = left.map_err(|error| error.to_string())?;
            left.retain(|key| !ends.may_leave(key));
            if !left.is_empty() {
                return Err(format!("left on the {word} side: {left:?}"));
            }
        }
        Ok(())
    }
}
