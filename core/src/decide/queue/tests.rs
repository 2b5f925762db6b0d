use super::*;

const TTL: Micros = 10_000_000;

fn id(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}

fn ask(n: u8, claim: Claim) -> QueueJoin {
    QueueJoin { id: id(n), claim, limit: Limit::Exactly(2), ttl: TTL, patience: Patience::Wait }
}

fn waiting(answer: Answer) -> bool {
    matches!(answer, Answer::Waiting { .. })
}

#[test]
fn release_admits_and_notifies_the_next_waiter() {
    let mut queue = Queue::new();
    assert_eq!(queue.join(100, &ask(1, Claim::Exclusive)).0, Answer::Admitted { sequence: 100 });
    assert_eq!(
        queue.join(100, &ask(2, Claim::Exclusive)).0,
        Answer::Waiting { sequence: 101, ahead_expires: 100 + TTL }
    );
    assert_eq!(queue.leave(200, id(1), 100), (true, vec![(id(2), 101)]));
    assert_eq!(queue.renew(300, id(2), 101).0, Answer::Admitted { sequence: 101 });
}

#[test]
fn prune_drops_dead_nodes_at_any_place() {
    let mut queue = Queue::new();
    for n in 1..=3 {
        queue.join(u64::from(n), &ask(n, Claim::Exclusive));
    }
    queue.renew(TTL - 1, id(3), 3);
    assert_eq!(queue.prune(TTL + 2), vec![(id(3), 3)]);
    assert_eq!(queue.renew(TTL + 3, id(1), 1).0, Answer::Gone);
}

#[test]
fn no_client_overtakes_a_waiter() {
    let mut queue = Queue::new();
    queue.join(1, &ask(1, Claim::Shared));
    assert!(waiting(queue.join(2, &ask(2, Claim::Exclusive)).0));
    assert!(waiting(queue.join(3, &ask(3, Claim::Shared)).0));
    let attempt = QueueJoin { patience: Patience::Try, ..ask(4, Claim::Shared) };
    assert_eq!(queue.join(4, &attempt).0, Answer::Refused);
    assert_eq!(queue.iter().count(), 3);
    assert_eq!(queue.leave(5, id(2), 2), (true, vec![(id(3), 3)]));
}

#[test]
fn any_release_admits_the_next_and_another_limit_conflicts() {
    for leaves in [1, 2] {
        let mut queue = Queue::new();
        for n in 1..=2 {
            queue.join(u64::from(n), &ask(n, Claim::Permits(1)));
        }
        assert!(waiting(queue.join(3, &ask(3, Claim::Permits(1))).0));
        assert_eq!(queue.leave(4, id(leaves), u64::from(leaves)).1, vec![(id(3), 3)]);
    }
    let mut queue = Queue::new();
    queue.join(1, &ask(1, Claim::Permits(1)));
    let other = QueueJoin { limit: Limit::Exactly(3), ..ask(2, Claim::Permits(1)) };
    assert_eq!(queue.join(2, &other).0, Answer::Conflict { stored: Some(2) });
    assert_eq!(queue.join(2, &ask(3, Claim::Permits(3))).0, Answer::Conflict { stored: Some(2) });
}

#[test]
fn a_limit_is_stored_where_none_is_and_followed_where_another_is() {
    let unless_stored = |n, weight, limit| {
        let limit = Limit::UnlessStored(limit);
        QueueJoin { limit, patience: Patience::Try, ..ask(n, Claim::Permits(weight)) }
    };
    let mut queue = Queue::new();
    assert_eq!(queue.join(1, &unless_stored(1, 4, 3)).0, Answer::Conflict { stored: Some(3) });
    assert_eq!(queue.limit(), None, "the join was refused");
    assert_eq!(queue.join(1, &unless_stored(1, 2, 3)).0, Answer::Admitted { sequence: 1 });
    assert_eq!(queue.join(2, &unless_stored(2, 1, 9)).0, Answer::Admitted { sequence: 2 });
    assert_eq!((queue.limit(), queue.join(3, &unless_stored(3, 1, 9)).0), (Some(3), Answer::Refused));
}

#[test]
fn waiters_follow_the_limit() {
    let mut queue = Queue::new();
    for (n, weight) in [(1, 2), (2, 1), (3, 2), (4, 1)] {
        let ask = QueueJoin { limit: Limit::Exactly(3), ..ask(n, Claim::Permits(weight)) };
        queue.join(u64::from(n), &ask);
    }
    assert_eq!(queue.set_limit(5, 1), vec![]);
    assert_eq!(queue.iter().filter(|(.., admitted)| *admitted).count(), 2);
    assert_eq!(queue.leave(6, id(1), 1).1, vec![]);
    assert_eq!(queue.unfit_head(), Some((id(3), 3)));
    assert_eq!(queue.renew(6, id(3), 3).0, Answer::Conflict { stored: Some(1) });
    assert_eq!(queue.leave(7, id(3), 3).1, vec![]);
    assert_eq!((queue.unfit_head(), queue.set_limit(8, 2)), (None, vec![(id(4), 4)]));
}

#[test]
fn a_writer_that_turns_reader_keeps_its_place_and_lets_the_next_readers_in() {
    let mut queue = Queue::new();
    for (n, claim) in [(1, Claim::Exclusive), (2, Claim::Shared), (3, Claim::Exclusive), (4, Claim::Shared)] {
        queue.join(u64::from(n), &ask(n, claim));
    }
    assert_eq!(queue.downgrade(5, id(3), 3), (false, vec![]), "a waiter");
    assert_eq!(queue.downgrade(5, id(1), 1), (true, vec![(id(2), 2)]));
    assert_eq!(queue.downgrade(6, id(1), 1), (true, vec![]));
    assert_eq!(queue.leave(7, id(1), 1).1, vec![]);
    assert_eq!(queue.leave(8, id(2), 2).1, vec![(id(3), 3)]);
}

#[test]
fn a_late_join_of_an_abandoned_attempt_makes_no_ghost() {
    let mut queue = Queue::new();
    assert!(!queue.abandon(1, id(1)).0);
    assert_eq!(queue.join(2, &ask(1, Claim::Exclusive)).0, Answer::Gone);
    assert!(queue.is_empty());
}

#[test]
fn a_repeated_join_makes_one_node_and_a_stale_leave_removes_nothing_newer() {
    let mut queue = Queue::new();
    queue.join(1, &ask(1, Claim::Exclusive));
    assert_eq!(queue.join(2, &ask(1, Claim::Exclusive)).0, Answer::Admitted { sequence: 1 });
    assert_eq!(queue.iter().count(), 1);
    assert!(!queue.leave(3, id(1), 7).0);
    assert!(!queue.leave(3, id(2), 1).0);
    assert_eq!(queue.iter().count(), 1);
}

#[test]
fn sequence_numbers_rise_when_the_clock_does_not() {
    let mut queue = Queue::new();
    queue.join(1_000, &ask(1, Claim::Exclusive));
    queue.leave(1_000, id(1), 1_000);
    assert_eq!(queue.join(10, &ask(2, Claim::Exclusive)).0, Answer::Admitted { sequence: 1_001 });
}
