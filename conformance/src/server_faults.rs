//! Chaos on a testbed whose servers fail too.

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
/// How long the chaos goes on when the servers are well again.
const AFTERMATH: Duration = Duration::from_secs(10);

/// Chaos beside the `faults` of the servers: both begin together, and the faults end within some
/// seconds of the time that they are given, which is longer in the long tier.
///
/// # Errors
/// The verdict of the chaos, or that no thread could be started for it.
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

/// What a server suffers that keeps its data: it is killed and started again, and stopped and
/// continued, at random. It is well again a few seconds after `lasts` at most.
///
/// # Cancel safety
/// Not cancel safe: it may leave the server dead or stopped.
///
/// # Panics
/// When that cannot be done: it must be the process' own.
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
