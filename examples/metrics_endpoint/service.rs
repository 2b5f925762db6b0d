//! A service reports its locks to Prometheus.
//!
//! ```text
//! cargo run -p metrics_endpoint                                      # on memory
//! cargo run -p metrics_endpoint -- redis://localhost 127.0.0.1:9465  # or zookeeper://…
//! curl http://127.0.0.1:9464/metrics
//! ```
//!
//! In the same folder, `prometheus.yml` scrapes it, `dashboard.json` is a dashboard for Grafana, and
//! `alerts.yml` has the alerts.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use latchwork::{Coordinator, Hold, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tracing_subscriber::EnvFilter;

const WORKERS: u64 = 3;

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "memory://fleet".to_owned());
    let address: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:9464").parse()?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("latchwork=info"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    // A client keeps the recorder of its connect.
    PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), latchwork::telemetry::SECONDS)?
        .install()?;
    println!("http://{address}/metrics");

    latchwork::with(url.as_str(), async |coordinator| {
        for number in 0..WORKERS {
            for kind in [Work::Invoice, Work::Read, Work::Write, Work::Export, Work::Lead, Work::Report] {
                tokio::spawn(work(coordinator.clone(), kind, number));
            }
        }
        tokio::signal::ctrl_c().await.map_err(Box::<dyn Error>::from)
    })
    .await
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Invoice,
    Read,
    Write,
    Export,
    Lead,
    Report,
}

async fn work(coordinator: Coordinator, kind: Work, number: u64) {
    for round in number.. {
        if let Err(error) = once(&coordinator, kind, round).await {
            println!("{kind:?}: {error}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

async fn once(coordinator: &Coordinator, kind: Work, round: u64) -> Result<()> {
    let length = Duration::from_millis(5 + round * 7 % 20);
    let within = Duration::from_secs(5);
    match kind {
        Work::Invoice => {
            let key = format!("invoices/{}", round % 2);
            held(coordinator.mutex(key)?.acquire().within(within).await?, length).await
        }
        Work::Read => held(coordinator.rwlock("prices")?.read().within(within).await?, length).await,
        Work::Write => held(coordinator.rwlock("prices")?.write().within(within).await?, length).await,
        Work::Export => {
            let exports = coordinator.semaphore("exports", 2)?;
            // Another export has both permits.
            let Some(permit) = exports.try_acquire(1).await? else {
                tokio::time::sleep(length).await;
                return Ok(());
            };
            held(permit, length).await
        }
        // An outage of more than a TTL loses this hold.
        Work::Report => {
            let report = coordinator.mutex(format!("reports/{}", round % WORKERS))?;
            held(report.acquire().await?, 1500 * length).await
        }
        Work::Lead => held(coordinator.election("billing")?.campaign(b"").await?, 50 * length).await,
    }
}

async fn held(hold: impl Into<Hold>, length: Duration) -> Result<()> {
    let hold = hold.into();
    let worked = hold.run(tokio::time::sleep(length)).await;
    match hold.release().await {
        Ok(()) => worked,
        Err(error) if error.lost_reason().is_some() => {
            println!("{error}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
