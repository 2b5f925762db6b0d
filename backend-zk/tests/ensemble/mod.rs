//! Tests that only cut servers off share one ensemble.

mod cells;
mod chaos;
mod failover;
mod hosts;
mod late;
mod quorum;

use std::ops::Deref;
use std::sync::{Arc, LazyLock, Weak};

use latchwork_conformance::servers::{Certificates, Ensemble};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

#[derive(Debug)]
struct Shared {
    ensemble: Ensemble,
    certificates: Certificates,
}

impl Deref for Shared {
    type Target = Ensemble;

    fn deref(&self) -> &Ensemble {
        &self.ensemble
    }
}

/// The runtime of a test ends with the test.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

static SHARED: Mutex<Weak<RwLock<Shared>>> = Mutex::const_new(Weak::new());

async fn shared() -> Arc<RwLock<Shared>> {
    let mut shared = SHARED.lock().await;
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let starting = RUNTIME.spawn(async {
        let certificates = Certificates::new().unwrap();
        let ensemble = Ensemble::zookeeper_with_tls(3, &certificates.server(true)).await.unwrap();
        Arc::new(RwLock::new(Shared { ensemble, certificates }))
    });
    let started = starting.await.unwrap();
    *shared = Arc::downgrade(&started);
    started
}

async fn well() -> OwnedRwLockReadGuard<Shared> {
    let ensemble = shared().await.read_owned().await;
    heal(&ensemble).await;
    ensemble
}

async fn to_cut() -> OwnedRwLockWriteGuard<Shared> {
    let ensemble = shared().await.write_owned().await;
    heal(&ensemble).await;
    ensemble
}

async fn heal(ensemble: &Ensemble) {
    ensemble.heal();
    for server in 0..ensemble.size() {
        ensemble.wait_until_serving(server).await.unwrap();
    }
}
