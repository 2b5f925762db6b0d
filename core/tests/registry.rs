//! A client in the registry, beside what the suite sees on every backend.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::Backend;
use latchwork_core::memory::{Link, Memory};
use latchwork_core::registry::LAYOUT;
use latchwork_core::{
    Clock, Config, Connector, Coordinator, ErrorKind, LostReason, Result, connect, connect_lazy,
};
use parking_lot::Mutex;

/// Connects to a store, and keeps the link of the last client.
#[derive(Debug)]
struct Stored {
    store: Memory,
    link: Mutex<Option<Link>>,
}

impl Stored {
    fn new() -> Arc<Self> {
        Arc::new(Self { store: Memory::new(Clock::tokio()), link: Mutex::default() })
    }

    fn connectors(self: &Arc<Self>) -> Vec<Arc<dyn Connector>> {
        vec![Arc::<Self>::clone(self)]
    }

    async fn client(self: &Arc<Self>, layout: u32) -> Result<(Coordinator, Link)> {
        let coordinator = connect(&self.connectors(), &config(layout)).await?;
        Ok((coordinator, self.link.lock().clone().expect("connected")))
    }
}

#[async_trait]
impl Connector for Stored {
    fn name(&self) -> &'static str {
        "stored"
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn clock(&self, _config: &Config) -> Clock {
        self.store.clock().clone()
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let (backend, link) = self.store.client(config)?;
        *self.link.lock() = Some(link);
        // The first request behind the connect is delayed in the test that drops it.
        tokio::task::yield_now().await;
        Ok(backend)
    }
}

fn config(layout: u32) -> Config {
    Config::new("stored").as_of_layout(layout)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_too_old_ends_and_its_holds_run_out() {
    let stored = Stored::new();
    let (older, link) = stored.client(LAYOUT).await.expect("the first");
    let (newer, _) = stored.client(LAYOUT + 1).await.expect("connected");
    let held = older.mutex("a").expect("a good key").acquire().await.expect("acquired");
    let ttl = older.lease().ttl();
    link.cut();
    tokio::time::sleep(ttl + Duration::from_secs(1)).await;
    assert_eq!(newer.raise_layout().await.expect("nobody older is listed"), LAYOUT + 1);
    assert_eq!(held.lost().await.reason(), LostReason::Expired);
    link.heal();
    tokio::time::sleep(ttl).await;
    let error = older.mutex("b").expect("a good key").acquire().await.expect_err("too old");
    assert_eq!(*error.kind(), ErrorKind::Closed, "{error}");
    tokio::time::sleep(2 * ttl).await;
    assert_eq!(newer.clients().page(0, 10).await.expect("listed").len(), 1, "itself");
}

#[tokio::test(start_paused = true)]
async fn a_lazy_client_is_refused_by_its_first_operation_and_enters_once_it_may() {
    let stored = Stored::new();
    let (newer, _) = stored.client(LAYOUT + 1).await.expect("the first");
    let lazy = connect_lazy(&stored.connectors(), &config(LAYOUT)).expect("nothing is asked yet");
    let error = lazy.mutex("a").expect("a good key").acquire().await.expect_err("a newer layout");
    assert_eq!(*error.kind(), ErrorKind::Misconfigured, "{error}");
    let lazy = connect_lazy(&stored.connectors(), &config(LAYOUT + 1)).expect("nothing is asked yet");
    assert_eq!(newer.clients().page(0, 10).await.expect("listed").len(), 1);
    let _held = lazy.mutex("a").expect("a good key").acquire().await.expect("acquired");
    assert_eq!(newer.clients().page(0, 10).await.expect("listed").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_is_dropped_or_late_leaves_nobody_registered() {
    let stored = Stored::new();
    let (watching, _) = stored.client(LAYOUT).await.expect("connected");
    for polls in 1..8 {
        let mut connecting = Box::pin(stored.client(LAYOUT));
        for _ in 0..polls {
            let polled = futures_util::poll!(&mut connecting);
            if polled.is_ready() {
                break;
            }
            if let Some(link) = &*stored.link.lock() {
                link.delay(Duration::from_millis(20));
            }
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        drop(connecting);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(watching.clients().page(0, 10).await.expect("listed").len(), 1, "after {polls} polls");
    }
}
