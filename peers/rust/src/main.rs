//! Measures other lock crates and raw requests: `peers NAME…`.
//!
//! Each measure prints a line of JSON. The environment has the servers and the parameters: see
//! `../README.md`.

#[cfg(feature = "etcd")]
mod etcd;
mod measures;
mod on_redis;
mod peer;
mod report;
mod zookeeper;

use std::process::ExitCode;
use std::sync::Arc;

use peer::Peer;

/// An error of a server or a crate, as a sentence.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn peers() -> Vec<Arc<dyn Peer>> {
    vec![
        Arc::new(on_redis::Raw),
        Arc::new(on_redis::RsLock),
        Arc::new(on_redis::DistributedLock),
        Arc::new(zookeeper::Raw),
        Arc::new(zookeeper::OfClient),
        #[cfg(feature = "etcd")]
        Arc::new(etcd::Raw { one_watch: false }),
        #[cfg(feature = "etcd")]
        Arc::new(etcd::Raw { one_watch: true }),
        #[cfg(feature = "etcd")]
        Arc::new(etcd::LockService),
    ]
}

#[tokio::main]
async fn main() -> ExitCode {
    let peers = peers();
    for wanted in std::env::args().skip(1) {
        let Some(peer) = peers.iter().find(|peer| peer.name() == wanted) else {
            eprintln!("no peer {wanted:?} in this build");
            return ExitCode::FAILURE;
        };
        measures::all(peer).await;
    }
    ExitCode::SUCCESS
}
