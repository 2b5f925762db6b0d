//! A service stops its work when its lock is lost, and ends in order after ctrl-c or SIGTERM.
//!
//! ```text
//! cargo run --example stop_on_loss                        # on memory, where it cuts its own connection
//! cargo run --example stop_on_loss -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! While the connection is cut, `close` fails and reports it, and the lock is free when the lease ends. On
//! your own server, stop the server for a few seconds to see the loss.

use std::time::Duration;

use futures_util::StreamExt;
use latchwork::testing::{Link, Memory};
use latchwork::{Clock, Config, Ended, HoldState, LostReason, Mutex, Result, Token};

const WORK: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<()> {
    let (coordinator, link) = match std::env::args().nth(1) {
        Some(url) => (latchwork::connect(&url).await?, None),
        None => {
            let mut config = Config::new("memory");
            config.ttl = Duration::from_secs(6);
            let (coordinator, link) = Memory::new(Clock::system()).connect(&config)?;
            (coordinator, Some(link))
        }
    };
    // Random for this example. A service has a fixed key.
    let lock = coordinator.mutex(format!("importer-{}", uuid::Uuid::new_v4()))?;
    // Also after an error or a panic. The close waits until the server has confirmed the release of every
    // lock, so the next instance does not wait for the end of this lease.
    coordinator
        .close_after(async |_| {
            tokio::select! {
                biased; // the signal handlers are set before the work starts
                // The service is dropped at its current await. Its guard releases in the background.
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
    // A lost hold stays lost. The next one has a new lease and a higher token.
    let hold = lock.acquire().await?;
    println!("holds again, with token {}", hold.token());
    assert!(hold.token() > first);
    hold.run(tokio::time::sleep(WORK)).await?;
    hold.release().await?;
    println!("worked for {WORK:?}, and released");
    Ok(())
}

async fn lose(lock: &Mutex, link: Option<&Link>) -> Result<Token> {
    // A job that hangs does not hold for ever.
    let hold = lock.acquire().max_hold(Duration::from_secs(8)).await?;
    println!("holds with token {}", hold.token());

    // Services may pause their writes when the coordinator does not answer.
    let states =
        tokio::spawn(hold.states().inspect(|state| println!("  state: {state:?}")).collect::<Vec<_>>());
    // Other tasks can have the future: it is owned and `'static`.
    let lost = hold.lost();
    let alert = tokio::spawn(async move { println!("  alert: {}", lost.await) });

    if let Some(link) = link {
        println!("the connection to the coordinator is cut");
        link.cut();
    }
    // This job hangs, and is dropped at the loss. (A job in `spawn_blocking` is not: share the hold in an
    // `Arc`, and call `hold.check()` between its steps.)
    let Err(lost) = hold.run(std::future::pending::<()>()).await else { unreachable!("the job hangs") };
    let reason = lost.lost_reason().expect("a loss");
    println!("the job was dropped: {lost}");

    let states = states.await.expect("no panic");
    alert.await.expect("no panic");
    assert_eq!(states.first(), Some(&HoldState::Held));
    assert_eq!(states.last(), Some(&HoldState::Ended(Ended::Lost(reason))));
    if link.is_some() {
        assert!(states.contains(&HoldState::Suspended), "`Suspended` comes before the deadline");
        assert_eq!(reason, LostReason::Expired);
    }
    // Another client may have held the lock since.
    assert_eq!(hold.release().await.expect_err("it was lost").lost_reason(), Some(reason));
    Ok(hold.token())
}

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
