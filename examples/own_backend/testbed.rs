use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_conformance::proxy::EventLost;
use latchwork_conformance::testbed::{Armed, Client, Fault, Fixture, Link, Testbed, stamps};
use latchwork_core::{Address, Capabilities, Clock, Config, Connector, Error, ErrorKind, Result, connect};

use crate::backend::{CAPABILITIES, TableConnector};
use crate::wire::{Site, Wire};

pub(crate) struct TableTestbed;

#[async_trait]
impl Testbed for TableTestbed {
    fn name(&self) -> &str {
        "own"
    }

    fn is_paused(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fixture(&self) -> Result<Box<dyn Fixture>> {
        Ok(Box::new(TableFixture(Arc::new(Site::new(Clock::tokio())))))
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![Arc::new(TableConnector::default())]
    }
}

/// Each case has its own table.
struct TableFixture(Arc<Site>);

#[async_trait]
impl Fixture for TableFixture {
    fn can(&self, fault: Fault) -> bool {
        // The suite checks that the others are refused below.
        matches!(fault, Fault::Cut | Fault::DropReply | Fault::Park | Fault::Remove | Fault::CountRequests)
    }

    fn config(&self) -> Config {
        Config::new("table")
    }

    async fn client(&self, config: &Config) -> Result<Client> {
        let wire = Wire::to(&self.0);
        let coordinator = connect(&[Arc::new(TableConnector::of(&wire))], config).await?;
        Ok(Client { coordinator, link: Arc::new(TableLink(wire)) })
    }

    async fn contents(&self) -> Result<Vec<String>> {
        let mut contents = self.0.carry_out(|table, now| table.contents(now));
        // The stamp of the namespace stays.
        let stamps = stamps(&self.config().namespace)?;
        contents.retain(|line| !stamps.iter().any(|stamp| *line == format!("{stamp:?}")));
        Ok(contents)
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        match self.0.carry_out(|table, now| table.revoke(now, queue, sequence)) {
            true => Ok(()),
            false => Err(Error::invalid("sequence", "no such node")),
        }
    }

    async fn plant(&self, _queue: &Address) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "plant" }, "a table holds nothing but nodes"))
    }

    async fn requests(&self) -> Result<u64> {
        Ok(self.0.requests.load(Ordering::Relaxed))
    }

    fn expiry_bound(&self) -> Duration {
        // Each access computes the expiry, and so do the waiters' timers.
        Duration::ZERO
    }

    fn exact_name(&self) -> String {
        "an exact name".to_owned()
    }

    fn process_config(&self) -> Option<Config> {
        None
    }
}

#[derive(Clone)]
struct TableLink(Wire);

#[async_trait]
impl Link for TableLink {
    fn cut(&self) {
        self.0.cut();
    }

    fn heal(&self) {
        self.0.heal();
    }

    fn drop_reply(&self, _key: &str) -> Box<dyn Armed> {
        self.0.drop_next_reply();
        Box::new(self.clone())
    }

    fn park(&self, _key: &str) -> Box<dyn Armed> {
        self.0.park_next_request();
        Box::new(self.clone())
    }

    fn delay(&self, delay: Duration) {
        self.0.delay(delay);
    }

    fn drop_wake(&self, _queue: &Address, _sequence: u64) -> bool {
        false
    }

    fn asked(&self) -> u64 {
        self.0.asked()
    }

    fn kill_renewal(&self) -> bool {
        false
    }
}

#[async_trait]
impl Armed for TableLink {
    async fn caught(&mut self) -> std::result::Result<(), EventLost> {
        self.0.met().await;
        Ok(())
    }

    async fn deliver(self: Box<Self>) {
        self.0.deliver_parked();
    }
}
