//! Chaos with failing servers.

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
/// Without further faults.
const AFTERMATH: Duration = Duration::from_secs(10);

/// Runs chaos with `faults`, which must end within seconds of their argument.
///
/// # Errors
/// The failures of the chaos.
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

/// Restarts or stalls a server of this process for `lasts`. Not cancel safe: a drop may leave it dead or stopped.
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
