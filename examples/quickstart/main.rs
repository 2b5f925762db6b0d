//! Workers share one lock: on memory, and as processes on every available coordinator.
//!
//! ```text
//! cargo run --example quickstart                   # memory, Redis, ZooKeeper
//! cargo run --example quickstart --features etcd   # and etcd, which needs protoc to build
//! ```
//!
//! It uses the servers in `LATCHWORK_REDIS_URL`, `LATCHWORK_ZOOKEEPER_URL` and `LATCHWORK_ETCD_URL`, or
//! starts a server program of this machine on a free port, never a server on a default port. Read `worker.rs`
//! first: it uses the library. The other files run it and show its events.

mod coordinators;
mod crew;
mod event;
mod paint;
mod show;
mod summary;
mod tally;
mod timeline;
mod worker;

use std::process::ExitCode;

use coordinators::Place;
use paint::Paint;
use summary::{Outcome, Row, Summary};

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(plan) = worker::Plan::of_this_process() {
        return worker::main(plan).await;
    }
    tokio::select! {
        healthy = run() => if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE },
        // This drops, and so ends, all started processes and servers.
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}

async fn run() -> bool {
    let paint = Paint::for_stdout();
    println!("{}\n", introduction());
    // Servers start while the workers run on memory.
    let searches = coordinators::search();
    let mut summary = Summary::default();
    summary.add(play(Place::memory(), paint).await);
    for search in searches {
        summary.add(play(search.found().await, paint).await);
    }
    summary.print(paint)
}

async fn play(place: Place, paint: Paint) -> Row {
    let backend = place.backend();
    match place {
        Place::Absent { why, how, .. } => {
            Row { backend, whereabouts: format!("not run: {why}"), outcome: Outcome::NotRun(how) }
        }
        Place::Broken { why, .. } => {
            Row { backend, whereabouts: "does not work".to_owned(), outcome: Outcome::Failed(why) }
        }
        Place::Here(stage) => {
            let outcome = match show::play(&stage, paint).await {
                Ok(tally) => Outcome::Seen(tally.judge()),
                Err(error) => Outcome::Failed(error),
            };
            // `stage` is dropped here, with a server that was started for it.
            Row { backend, whereabouts: stage.whereabouts().to_owned(), outcome }
        }
    }
}

fn introduction() -> String {
    format!(
        "{} workers ({}) share one lock, {} turns each, first in this process, then as\n\
         processes on each available coordinator. {} is killed in its {} turn, while it holds the lock.\n\
         No other worker gets it until the dead worker's lease of {} s has ended. Then the next waiter gets it.",
        event::WORKERS.len(),
        event::WORKERS.join(", "),
        worker::TURNS,
        event::WORKERS[worker::VICTIM],
        ["first", "second", "third"][worker::FATAL_TURN as usize - 1],
        worker::TTL.as_secs(),
    )
}
