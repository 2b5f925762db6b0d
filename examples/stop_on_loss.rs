//! A service whose work stops when its lock is lost, and that gives everything back when it is asked to end.
//!
//! ```text
//! cargo run --example stop_on_loss                        # on memory, where it cuts its own line to the coordinator
//! cargo run --example stop_on_loss -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! Press ctrl-c, or send SIGTERM: it ends in order. (Not while the line is cut: then `close` fails and says so, and the lease's end
//! frees what was held.) On a server of yours, stop that one for a few seconds and see the same.

use std::time::Duration;

use futures_util::StreamExt;
use latchwork::contracts::LeaseState;
use latchwork::memory::{Link, Memory};
use latchwork::{Acquire, Clock, Config, LostReason, Mutex, Release, Result, Token};

#[tokio::main]
async fn main() -> Result<()> {
    let (coordinator, link) = match std::env::args().nth(1) {
        Some(url) => (latchwork::connect(&url).await?, None),
        None => {
            let mut config = Config::new("memory");
            config.ttl = Duration::from_secs(3);
            let (coordinator, link) = Memory::new(Clock::system()).connect(&config)?;
            (coordinator, Some(link))
        }
    };
    // Random, so that two runs of this example do not meet. A service has a fixed key.
    let lock = coordinator.mutex(format!("importer-{:08x}", rand::random::<u32>()))?;
    // Whatever ends the work, an error or a panic too, the coordinator is closed behind it, which waits until the server has
    // confirmed that nothing is held: the next instance need not wait for our lease to run out.
    coordinator
        .close_after(async |_| {
            tokio::select! {
                biased; // the handlers of signals are set before the work begins
                // The service is dropped where it awaits, and its guard with it: that releases in the background.
                signal = asked_to_end() => {
                    println!("{signal}: ending");
                    Ok(())
                }
                outcome = service(&lock, link) => outcome,
            }
        })
        .await?;
    println!("closed: nothing is held any more");
    Ok(())
}

async fn service(lock: &Mutex, link: Option<Link>) -> Result<()> {
    let first = lose(lock, link.as_ref()).await?;
    if let Some(link) = &link {
        link.heal();
    }
    // A lost hold stays lost. The next one comes with a new lease, by itself, and with a higher fence.
    let hold = lock.acquire().await?;
    println!("holds again, with fence {}", hold.token());
    assert!(hold.token() > first);
    hold.run(tokio::time::sleep(Duration::from_secs(1))).await?;
    assert_eq!(hold.release().await?, Release::Released);
    println!("worked for a second, and released");
    Ok(())
}

/// Works until the hold is lost. Answers the fence it had.
async fn lose(lock: &Mutex, link: Option<&Link>) -> Result<Token> {
    // With a fixed end, so that a job that hangs does not hold for ever.
    let hold = lock.acquire_with(Acquire::new().max_hold(Duration::from_secs(4))).await?;
    println!("holds with fence {}", hold.token());

    // For those who pause their writes as soon as the coordinator does not answer, while the hold is still theirs.
    let states =
        tokio::spawn(hold.states().inspect(|state| println!("  state: {state:?}")).collect::<Vec<_>>());
    // For others who have to know: owned and 'static, so it goes anywhere.
    let lost = hold.lost();
    let alert = tokio::spawn(async move { println!("  alert: {}", lost.await) });

    if let Some(link) = link {
        println!("the line to the coordinator is cut");
        link.cut();
    }
    // This job hangs; it is dropped when the hold is lost. (What a job gave to spawn_blocking is not: share the hold with it by
    // an Arc, and let it look at `hold.check()` between its steps.)
    let Err(lost) = hold.run(std::future::pending::<()>()).await else { unreachable!("the job hangs") };
    let reason = lost.lost_reason().expect("a loss");
    println!("the job was dropped: {lost}");

    let states = states.await.expect("no panic");
    alert.await.expect("no panic");
    assert_eq!(states.first(), Some(&LeaseState::Live));
    assert_eq!(states.last(), Some(&LeaseState::Lost(reason)));
    if link.is_some() {
        assert!(states.contains(&LeaseState::Suspended), "one is warned before the deadline");
        assert_eq!(reason, LostReason::Expired);
    }
    // A release says so too: somebody else may have held since.
    assert_eq!(hold.release().await?, Release::AlreadyLost(reason));
    Ok(hold.token())
}

/// Whichever signal comes first.
#[cfg(unix)]
async fn asked_to_end() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("a handler for SIGTERM");
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        pressed = tokio::signal::ctrl_c() => pressed.map(|()| "ctrl-c").expect("a handler for ctrl-c"),
    }
}

#[cfg(not(unix))]
async fn asked_to_end() -> &'static str {
    tokio::signal::ctrl_c().await.map(|()| "ctrl-c").expect("a handler for ctrl-c")
}
