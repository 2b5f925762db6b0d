//! What no client can bring about: all else is asserted by the suite, on memory.

use super::*;

fn ask(n: u8) -> QueueJoin {
    let id = NodeId::from_bytes([n; 16]);
    QueueJoin { id, claim: Claim::Exclusive, limit: Limit::Stored, ttl: 10_000_000, patience: Patience::Wait }
}

#[test]
fn downgrade_of_a_waiter_changes_nothing() {
    let mut queue = Queue::new();
    queue.join(1, &ask(1));
    queue.join(2, &ask(2));
    assert_eq!(queue.downgrade(5, ask(2).id, 2), (false, vec![]));
}

#[test]
fn sequence_numbers_rise_when_the_clock_does_not() {
    let mut queue = Queue::new();
    queue.join(1_000, &ask(1));
    queue.leave(1_000, ask(1).id, 1_000);
    assert_eq!(queue.join(10, &ask(2)).0, Answer::Admitted { sequence: 1_001 });
}
