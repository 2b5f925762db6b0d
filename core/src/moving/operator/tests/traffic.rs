//! Locks and a counter in use during a move there and back.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Bed, ignored};
use crate::decide::moving::MovePhase;
use crate::moving::tests::traffic::{COUNTER, TASKS, Witness, add, work};

const LASTS: Duration = Duration::from_secs(60);

/// No two clients hold at once, tokens rise, and the counter is exact and never falls.
#[tokio::test(start_paused = true)]
async fn eight_hold_and_add_while_an_operator_moves_all_of_it_there_and_back() {
    for seed in 0..2 {
        let (bed, witness) = (Bed::new(), Arc::new(Mutex::new(Witness::default())));
        let (mut random, until) = (StdRng::seed_from_u64(seed), Instant::now() + LASTS);
        let mut tasks = JoinSet::new();
        for number in 0..TASKS {
            let (one, witness) = (bed.participant(&format!("one {number}")).await, Arc::clone(&witness));
            tasks.spawn(async move {
                let adds = async {
                    while Instant::now() < until {
                        add(&one, &witness).await;
                        sleep(Duration::from_millis(11)).await;
                    }
                };
                tokio::join!(work(&one, &witness, seed * 100 + number, until), adds);
                one.close().await.expect("closed");
            });
        }
        let operator = bed.operator().await;
        let (mut back, mut steps) = (false, 0);
        while Instant::now() < until {
            let phase = match back {
                true => operator.step_back(ignored).await.expect("a step"),
                false => Some(operator.advance(ignored).await.expect("a step")),
            };
            steps += 1;
            back = match phase {
                None | Some(MovePhase::Old) => false,
                Some(MovePhase::New) => true,
                _ => back ^ random.random_bool(0.2),
            };
            sleep(random.random_range(Duration::ZERO..Duration::from_millis(300))).await;
        }
        let last = bed.member("last").await.follows();
        operator.run(ignored).await.expect("made");
        last.leaves().await;
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic");
        }
        operator.finish().await.expect("they have left");
        let plain = bed.plain_on_new("behind").await.expect("it is in use");
        let (count, witness) = (plain.counter(COUNTER).unwrap().get().await.unwrap(), witness.lock());
        assert_eq!(count, witness.adds, "each add once");
        assert!(
            witness.grants > 500 && witness.adds > 500 && steps > 50,
            "{} grants, {steps} steps",
            witness.grants
        );
    }
}
