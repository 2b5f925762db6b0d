//! What stands where a limit is stored, read by the scripts and by core.

use latchwork_core::contracts::StoredLimit;

use super::*;

/// Texts like those that somebody may store for a limit, and any bytes.
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
    let server = Server::start(servers::Kind::Redis, Options::new()).await.unwrap();
    let mut bench = Bench::new(server.url()).await;
    let address = Address::new("limits", Kind::Semaphore, NodeId::random().to_string()).unwrap();
    let queue = Queue::of(&address).unwrap();
    let key = queue.keys().last().unwrap().to_string();
    let (mut dice, mut limits) = (Dice(1), 0);
    for _ in 0..2000 {
        let stored = stored(&mut dice);
        redis::cmd("SET").arg(&key).arg(&stored).exec_async(&mut bench.raw).await.unwrap();
        let core = StoredLimit::read(Some(&stored));
        let read = scripts::stored_limit(bench.run(scripts::limit(&queue)).await).unwrap();
        assert_eq!(read, core, "{stored:?}");
        let join = Join {
            queue: address.clone(),
            id: NodeId::random(),
            claim: Claim::Permits(1),
            limit: AskedLimit::UnlessStored(3),
            label: "any bytes".into(),
            patience: Patience::Try,
            repeated: false,
        };
        let call = scripts::join(&queue, &join, Duration::from_secs(60), (SECRET, &bench.channel), None);
        let (answer, ..) = scripts::joined(bench.run(call).await).unwrap();
        match (join.settle(&core), answer) {
            (Ok(_), JoinAnswer::Admitted { sequence }) => {
                limits += 1;
                bench.run(scripts::leave(&queue, join.id, sequence, None)).await;
            }
            (Err(_), JoinAnswer::Conflict { stored }) => assert_eq!(stored, core),
            (settled, answer) => panic!("{stored:?}: {settled:?}, but {answer:?}"),
        }
        let stays: Vec<u8> = redis::cmd("GET").arg(&key).query_async(&mut bench.raw).await.unwrap();
        assert_eq!(stays, stored, "a join has written it");
    }
    assert!((100..1900).contains(&limits), "{limits} of 2000 were limits");
}
