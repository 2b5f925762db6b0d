//! A program writes invalid values into the keys of a queue, between the operations of correct clients, of
//! which no two hold at once.

use latchwork_core::backend::NodeId;
use latchwork_core::{Claim, ErrorKind, Kind, Limit};

use super::fixture::{FAR, Fixture, TICK};
use super::history::History;
use crate::layout::Shape;
use crate::scripts::{self, JoinAnswer, RenewAnswer};

/// A program that writes valid values controls the queue: only an ACL prevents that.
const RUBBISH: [&[&str]; 3] = [
    &["", "x", "-1", "0.5", "nan", "inf", "-inf", "1e300"],
    &["9007199254740992", "9007199254740993", "99999999999999999999", "9007199254740990"],
    &["x 1 2 3", "x 99999999999 1 1 a@b c", "9 9 9 9 x 9 9 9"],
];
const SCORES: [&str; 8] =
    ["-1", "0.5", "inf", "-inf", "1e300", "9007199254740992", "18014398509481984", "9007199254740990"];
const FIELDS: [&str; 9] = ["last", "front", "sum", "seen", "alive", "kept", "left", "writers", "mend"];

async fn vandalize(history: &mut History<'_>, nodes: &[(NodeId, u64)]) {
    let parts: Vec<_> = history.queue.keys().map(|key| key.to_string()).collect();
    let dice = &mut history.dice;
    let ours: Vec<_> = nodes.iter().map(|(id, _)| id.to_string()).collect();
    let member = match dice.roll(3) {
        0 => "foreign".to_owned(),
        _ => dice.pick(&ours).cloned().unwrap_or_default(),
    };
    let rubbish = *dice.pick(&RUBBISH.concat()).unwrap();
    let score = *dice.pick(&SCORES).unwrap();
    let mut command = redis::Cmd::new();
    match dice.roll(5) {
        0 => command.arg("ZADD").arg(&parts[0]).arg(score).arg(member),
        1 => command.arg("ZADD").arg(&parts[1]).arg(score).arg(member),
        2 => command.arg("HSET").arg(&parts[2]).arg(member).arg(rubbish),
        3 => {
            // Only invalid values: a wrong sum looks like a right one.
            let field = *dice.pick(&FIELDS).unwrap();
            command.arg("HSET").arg(&parts[3]).arg(field).arg(rubbish)
        }
        _ if history.queue.shape == Shape::ReadWrite && dice.roll(2) == 0 => {
            command.arg("ZADD").arg(&parts[5]).arg(score).arg("foreign")
        }
        _ if history.queue.shape != Shape::Permits => command.arg("SET").arg(&parts[4]).arg(rubbish),
        _ => command.arg("DEL").arg(&parts[3]),
    };
    history.log.push(format!("{command:?}"));
    // Refused if an earlier write has given the key another type.
    let _: redis::RedisResult<redis::Value> = history.fixture.raw(&command).await;
}

async fn join(history: &mut History<'_>) -> Option<(NodeId, u64)> {
    let claim = if history.queue.shape == Shape::Permits { Claim::Permits(1) } else { Claim::Exclusive };
    let join = history.attempt(claim, Limit::UnlessStored(1));
    let joined = history.try_join(&join).await;
    history.log.push(format!("join {}: {joined:?}", join.id));
    match joined {
        Ok(JoinAnswer::Admitted { sequence, .. } | JoinAnswer::Waiting { sequence, .. }) => {
            Some((join.id, sequence))
        }
        Ok(_) => None,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            None
        }
    }
}

/// By the answers to renewals at one instant.
async fn holders(history: &mut History<'_>, nodes: &[(NodeId, u64)]) -> Vec<NodeId> {
    let mut holders = Vec::new();
    for node in nodes {
        let answer = history.renewed(*node, FAR).await;
        history.log.push(format!("renew {}: {answer:?}", node.0));
        if answer == RenewAnswer::Held {
            holders.push(node.0);
        }
    }
    holders
}

#[tokio::test]
async fn rubbish_in_the_keys_of_a_queue_lets_no_two_hold() {
    let fixture = Fixture::start().await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        let (mut held, mut waited) = (0, 0);
        for seed in 0..300 {
            let mut history = History::new(&fixture, Fixture::queue(kind, "vandal"), seed);
            let mut nodes = Vec::new();
            for _ in 0..6 {
                nodes.extend(join(&mut history).await);
                for _ in 0..history.dice.roll(3) {
                    vandalize(&mut history, &nodes).await;
                }
                history.now += history.dice.roll(TICK);
                let holders = holders(&mut history, &nodes).await;
                assert!(holders.len() <= 1, "{holders:?} hold {}", history.story());
                held += holders.len();
                waited += nodes.len() - holders.len();
                let call = scripts::list(&history.queue, 0, 100).at(history.now);
                scripts::listed(history.fixture.run(call).await, true).unwrap();
            }
            history.fixture.notified().await;
        }
        assert!(held > 300 && waited > 300, "{kind:?}: {held} held, {waited} did not");
    }
}
