//! Chaos on a testbed with failing servers.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::adapter::Adapter;
use crate::cases::chaos::{chaos, pause};
use crate::cases::is_long;
use crate::child::SoakKind;
use crate::harness::{on_thread, play_with};
use crate::testbeds::ServerTestbed;
use latchwork_servers::Server;

const SECOND: Duration = Duration::from_secs(1);
/// The time that the chaos continues after the servers have recovered.
const AFTERMATH: Duration = Duration::from_secs(10);

/// Runs chaos and the `faults` of the servers at the same time. The faults must end within some seconds of the given time,
/// which is longer in the long tier.
///
/// # Errors
/// The failures of the chaos, or that the system starts no thread for it.
pub fn chaos_beside<F: Future<Output = ()>>(
    testbed: ServerTestbed,
    kind: SoakKind,
    runtime: &Runtime,
    faults: impl FnOnce(Duration) -> F,
) -> Result<(), String> {
    let lasts = Duration::from_secs(if is_long() { 60 } else { 12 });
    let testbed: &'static ServerTestbed = Box::leak(Box::new(testbed));
    let playing = on_thread(move || {
        play_with(testbed, Adapter::Mutex, async |context| chaos(context, kind, lasts + AFTERMATH).await)
    })?;
    runtime.block_on(faults(lasts));
    playing.join().expect("it catches panics").map(drop)
}

/// Kills and restarts, or stops and continues, a server that keeps its data, at random. The server works again at most a few
/// seconds after `lasts`.
///
/// # Cancel safety
/// Not cancel safe: it may leave the server dead or stopped.
///
/// # Panics
/// If that is not possible: this process must have started the server.
pub async fn restarts_and_stalls(server: &Server, lasts: Duration) {
    let mut chance = StdRng::seed_from_u64(rand::random());
    let ends = Instant::now() + lasts;
    let (mut restarts, mut stalls) = (0, 0);
    while Instant::now() < ends {
        pause(&mut chance, SECOND / 2..SECOND * 4).await;
        let longest = ends.saturating_duration_since(Instant::now()).clamp(SECOND / 10, SECOND * 4);
        if chance.random() {
            server.kill().await.expect("killed");
            pause(&mut chance, Duration::ZERO..longest / 2).await;
            server.launch().await.expect("launched");
            restarts += 1;
        } else {
            server.pause().await.expect("stopped");
            pause(&mut chance, Duration::ZERO..longest).await;
            server.resume().await.expect("continued");
            stalls += 1;
        }
    }
    eprintln!("{restarts} restarts, {stalls} stalls");
}
