//! The scripts and core read any stored limit in the same way.

use latchwork_core::backend::{Join, Patience, StoredLimit};
use latchwork_core::{Claim, Kind, Limit};

use super::dice::Dice;
use super::fixture::{FAR, Fixture};
use super::history::History;
use crate::scripts::{self, JoinAnswer};

fn stored(dice: &mut Dice) -> Vec<u8> {
    const PARTS: [&str; 12] =
        ["0", "1", "42", "4294967295", "4294967296", "99999999999999999999", "-", "+", " ", ".", "e", "inf"];
    if dice.roll(2) == 0 {
        return (0..dice.roll(6)).map(|_| u8::try_from(dice.roll(256)).unwrap()).collect();
    }
    (0..1 + dice.roll(3)).flat_map(|_| dice.pick(&PARTS).unwrap().bytes()).collect()
}

#[tokio::test]
async fn the_scripts_and_core_read_the_same_from_any_bytes() {
    let fixture = Fixture::start().await;
    let address = Fixture::queue(Kind::Semaphore, "limits");
    let history = History::new(&fixture, address, 0);
    let queue = &history.queue;
    let key = queue.keys().last().unwrap().to_string();
    let (mut dice, mut limits) = (Dice(1), 0);
    for _ in 0..2000 {
        let stored = stored(&mut dice);
        fixture.raw::<()>(redis::cmd("SET").arg(&key).arg(&stored)).await.unwrap();
        let core = StoredLimit::read(Some(&stored));
        let read = scripts::stored_limit(fixture.run(scripts::limit(queue)).await).unwrap();
        assert_eq!(read, core, "{stored:?}");
        let attempt = history.attempt(Claim::Permits(1), Limit::UnlessStored(3));
        let join = Join { patience: Patience::Try, ..attempt };
        let call = scripts::join(queue, &join, FAR, fixture.inbox());
        let (answer, ..) = scripts::joined(fixture.run(call).await).unwrap();
        match (join.settle(&core), answer) {
            (Ok(_), JoinAnswer::Admitted { sequence, .. }) => {
                limits += 1;
                fixture.run(scripts::leave(queue, join.id, sequence)).await;
            }
            (Err(_), JoinAnswer::Conflict { stored }) => assert_eq!(stored, core),
            (settled, answer) => panic!("{stored:?}: {settled:?}, but {answer:?}"),
        }
        let stays: Vec<u8> = fixture.raw(redis::cmd("GET").arg(&key)).await.unwrap();
        assert_eq!(stays, stored, "a join has written the limit");
    }
    assert!((100..1900).contains(&limits), "{limits} of 2000 were limits");
}
