//! The long tier: many tasks in several processes, for a while.

use std::time::Duration;

use latchwork_core::Token;

use crate::case::cases;
use crate::contender::{Contender, Event, Soak};
use crate::kit::LONG_TTL;
use crate::testbed::Fault;

const PROCESSES: usize = 4;
const SOAK: Soak = Soak { tasks: 50, seconds: 30 };

cases! {
    "MUTEX-EXCLUSION" adapted alone long =>
    /// 200 tasks over 4 client processes for 30 seconds: no overlap, tokens strictly rising in the order of holding, all served
    async fn soak_200_tasks_in_4_processes(scene) {
        let config = scene.stage.process_config();
        assert_eq!(config.is_some(), scene.can(Fault::Processes), "the testbed says what it can");
        let Some(mut config) = config else { return };
        config.ttl = LONG_TTL;
        let mut contenders = Vec::new();
        for _ in 0..PROCESSES {
            contenders.push(Contender::soaking(scene, &config, "soak", SOAK).await);
        }
        let mut stints = Vec::new();
        for stint in futures_util::future::join_all(contenders.into_iter().map(stints_of)).await {
            assert!(!stint.is_empty(), "a process was never served");
            stints.extend(stint);
        }
        // FIFO by sequence number: the order of tokens is the order of holding.
        stints.sort_unstable();
        for pair in stints.windows(2) {
            let ((first, from, to), (second, next, _)) = (pair[0], pair[1]);
            assert!(first < second, "token {first} was given twice");
            assert!(to <= next, "{first} held from {from} to {to}, and {second} from {next}: an overlap or out of order");
        }
        eprintln!("{} as {}: {} grants in {} s by {PROCESSES} processes", scene.bed.name(), scene.adapter, stints.len(), SOAK.seconds);
    }
}

/// All that one process reports, to its end in order.
async fn stints_of(mut contender: Contender) -> Vec<(Token, u64, u64)> {
    let mut stints = Vec::new();
    let whole = async {
        loop {
            match contender.next_in_time().await {
                Event::Stint { token, from, to } => stints.push((token, from, to)),
                Event::Released => return,
                other => panic!("unexpected in a soak: {other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(SOAK.seconds + 60), whole).await.expect("the soak ends");
    stints
}
