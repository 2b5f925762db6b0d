//! Locks move from one coordinator to another while services hold them, and never have two holders.
//!
//! ```text
//! cargo run --example live_migration                                       # between two stores in memory
//! cargo run --example live_migration --features redis -- redis://localhost  # from memory to that server
//! ```
//!
//! Each service is connected to both sides, and its code is unchanged. The picture shows the holds: `#` with
//! a token of the old side, `=` with a token of the new side.

use std::env;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchwork::operator::MovePhase;
use latchwork::operator::{Move, MoveProgress};
use latchwork::{Config, Coordinator, MoveConfig, Result, Token, connect};
use tokio::time::{Instant, sleep};

const SERVICES: [&str; 3] = ["billing", "mailer", "search"];
const WIDTH: usize = 96;

type Held = (usize, Token, Instant, Instant);

#[tokio::main]
async fn main() -> Result<()> {
    let mut to = Config::from_url(&env::args().nth(1).unwrap_or("memory://after".to_owned()))?;
    // A move refuses other clients of the namespace.
    to.namespace = format!("live-migration-{}", std::process::id());
    let sides = MoveConfig::new(Config::from_url("memory://before")?, to, "demo");
    let (seen, begun) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let (mut working, stop) = (Vec::new(), tokio::sync::watch::channel(false).0);
    for service in 0..SERVICES.len() {
        let coordinator = connect(&Config::of_move(sides.clone())).await?;
        working.push(tokio::spawn(work(coordinator, service, Arc::clone(&seen), stop.subscribe())));
    }

    let mut phases = vec![(begun, MovePhase::Old)];
    let the_move = Move::connect(&latchwork::connectors(), &sides).await?;
    sleep(Duration::from_millis(300)).await;
    // Like `latchwork migrate run`, with a pause in each phase.
    loop {
        let phase = the_move.advance(|progress: &MoveProgress<'_>| println!("{progress}")).await?;
        phases.push((Instant::now(), phase));
        sleep(Duration::from_millis(250)).await;
        if phase == MovePhase::Done {
            break;
        }
    }
    stop.send_replace(true);
    for service in working {
        service.await.expect("a service does not panic")?;
    }
    the_move.close().await?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    draw(&seen, &phases, begun);
    Ok(())
}

/// The service knows nothing of the move.
async fn work(
    coordinator: Coordinator,
    service: usize,
    seen: Arc<Mutex<Vec<Held>>>,
    stop: tokio::sync::watch::Receiver<bool>,
) -> Result<()> {
    let mutex = coordinator.mutex("report")?;
    while !*stop.borrow() {
        let hold = mutex.acquire().await?;
        let from = Instant::now();
        sleep(Duration::from_millis(25)).await;
        hold.check()?;
        seen.lock().unwrap_or_else(PoisonError::into_inner).push((
            service,
            hold.token(),
            from,
            Instant::now(),
        ));
        hold.release().await?;
    }
    coordinator.close().await
}

fn draw(seen: &[Held], phases: &[(Instant, MovePhase)], begun: Instant) {
    let end = seen.iter().map(|held| held.3).max().unwrap_or(begun);
    let whole = end.duration_since(begun).as_secs_f64().max(0.001);
    let at = |when: Instant| (when.duration_since(begun).as_secs_f64() / whole * (WIDTH - 1) as f64) as usize;
    let mut head = vec![b' '; WIDTH + 16];
    for (when, phase) in phases {
        let (place, phase) = (at(*when).min(WIDTH - 1), phase.as_str());
        head[place] = b'|';
        head[place + 1..place + 1 + phase.len()].copy_from_slice(phase.as_bytes());
    }
    println!("\n{:10}{}", "", String::from_utf8_lossy(&head).trim_end());
    for (number, service) in SERVICES.iter().enumerate() {
        let mut line = vec![b'.'; WIDTH];
        for (_, token, from, to) in seen.iter().filter(|held| held.0 == number) {
            let mark = if token.epoch() == 0 { b'#' } else { b'=' };
            line[at(*from)..=at(*to).min(WIDTH - 1)].fill(mark);
        }
        println!("{service:10}{}", String::from_utf8_lossy(&line));
    }
    let mut holds = seen.to_vec();
    holds.sort_by_key(|held| held.2);
    assert!(holds.windows(2).all(|pair| pair[0].3 <= pair[1].2), "two services held the lock at a time");
    assert!(holds.windows(2).all(|pair| pair[0].1 < pair[1].1), "a token is not above the token before");
    println!("\n{} holds, never two at a time, and every token is above the token before.", holds.len());
}
