//! The scripts on a real server and their twin in core must agree on random histories, so that models may
//! explore the twin.

use latchwork_core::backend::{Join, Patience};
use latchwork_core::{Claim, Kind, Limit};

use super::fixture::{Fixture, TICK};
use super::forms::Forms;
use super::history::{Contender, History, TTLS};

/// With `LATCHWORK_LONG`, twenty-five times as many, as in core's models.
async fn histories(kind: Kind, seeds: std::ops::Range<u64>, steps: usize) {
    let long = std::env::var_os("LATCHWORK_LONG").is_some_and(|value| value != "0");
    let seeds = if long { seeds.start..seeds.start + 1000 } else { seeds };
    let fixture = Fixture::start().await;
    let (mut forms, seeds_run) = (Forms::default(), seeds.clone().count());
    for seed in seeds {
        let mut history = History::new(&fixture, Fixture::queue(kind, &seed.to_string()), seed);
        fixture.listen(&history.queue).await;
        for _ in 0..steps {
            history.step().await;
        }
        forms.add(&history.forms);
    }
    let least = seeds_run * steps / 60;
    assert!(
        kind == Kind::Semaphore || forms.are_met(least),
        "a form of the queue occurred too rarely: {forms:?}"
    );
}

#[tokio::test]
async fn exclusive_histories_agree_with_the_twin() {
    histories(Kind::Mutex, 0..40, 150).await;
}

#[tokio::test]
async fn shared_histories_agree_with_the_twin() {
    histories(Kind::RwLock, 1000..1040, 150).await;
}

#[tokio::test]
async fn permit_histories_agree_with_the_twin() {
    histories(Kind::Semaphore, 2000..2040, 150).await;
}

#[tokio::test]
async fn observed_histories_agree_with_the_twin() {
    histories(Kind::Election, 3000..3030, 150).await;
    histories(Kind::Group, 4000..4030, 150).await;
}

#[tokio::test]
async fn a_question_while_the_clock_is_back_shortens_a_folded_node_too() {
    let fixture = Fixture::start().await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        for asking in 0..4 {
            let mut history = History::new(&fixture, Fixture::queue(kind, "agree"), 7);
            let attempt = |patience| Join { patience, ..history.attempt(Claim::Exclusive, Limit::Stored) };
            let (held, other) = (attempt(Patience::Wait), attempt(Patience::Try));
            let contender = |join| Contender { join, ttl: 10 * TICK, sequence: 0 };
            history.join(contender(held)).await;
            history.check_form().await;
            assert!(history.folded);
            history.now -= 8 * TICK;
            match asking {
                0 => history.join(contender(other)).await,
                1 => history.list().await,
                2 => {
                    let held = std::mem::replace(&mut history.contenders, vec![contender(other)]);
                    history.leave().await;
                    history.renew().await;
                    history.contenders = held;
                }
                _ => {}
            }
            history.now += 13 * TICK;
            history.contenders.truncate(1);
            history.renew().await;
            history.list().await;
        }
    }
}

#[tokio::test]
async fn a_repeated_join_renews_a_folded_node() {
    let fixture = Fixture::start().await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        let mut history = History::new(&fixture, Fixture::queue(kind, "agree"), 7);
        history.ttls = &TTLS[2..];
        while history.twin.is_empty() {
            history.join_new().await;
        }
        history.contenders.drain(..history.contenders.len() - 1);
        for _ in 0..3 {
            history.now += 6 * TICK;
            history.join_again().await;
            history.check_form().await;
            assert!(history.folded && !history.twin.is_empty());
        }
        history.now += 6 * TICK;
        history.list().await;
    }
}

#[tokio::test]
async fn a_crowd_that_expires_at_once_agrees_with_the_twin() {
    let fixture = Fixture::start().await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        let mut history = History::new(&fixture, Fixture::queue(kind, "agree"), 7);
        history.ttls = &TTLS[..1];
        for _ in 0..1500 {
            history.now += 1;
            history.join_new().await;
        }
        history.now += 2 * TICK;
        // The scripts drop these last.
        history.contenders.drain(..1400);
        for _ in 0..2 {
            history.renew().await;
            history.join_again().await;
        }
        for _ in 0..40 {
            history.step().await;
        }
        history.list().await;
    }
}
