//! Readers, writers and permits, below the recipes: admission, order, events, limits.

use crate::common::{
    ask, attempt, client, etcdctl, join, keys, proxied, revision, server, soon, still_waits, wait,
};
use latchwork_core::contracts::{Joined, Page, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{ErrorKind, Kind, LostReason};

fn holds(chunk: &[u8], text: &[u8]) -> bool {
    chunk.windows(text.len()).any(|window| window == text)
}

#[tokio::test]
async fn readers_share_behind_the_nearest_writer() {
    let server = server().await;
    let (a, b) = (client(&server, "").await, client(&server, "").await);
    let (reader, writer) = (Claim::Shared, Claim::Exclusive);
    let (in1, r1) = join(&a, Kind::RwLock, reader, None).await;
    let (in2, r2) = join(&b, Kind::RwLock, reader, None).await;
    assert!(in1 && in2);
    let (in3, w1) = join(&a, Kind::RwLock, writer, None).await;
    let (in4, r3) = join(&b, Kind::RwLock, reader, None).await;
    let (in5, r4) = join(&a, Kind::RwLock, reader, None).await;
    assert!(!in3 && !in4 && !in5);
    assert!(attempt(&a, Kind::RwLock, reader, None).await.is_none());
    let (mut write, mut read3, mut read4) = (wait(&w1), wait(&r3), wait(&r4));
    r2.leave().await.unwrap();
    still_waits(&mut write).await;
    r1.leave().await.unwrap();
    soon(&mut write).await.unwrap().unwrap();
    still_waits(&mut read3).await;
    w1.leave().await.unwrap();
    soon(&mut read3).await.unwrap().unwrap();
    soon(&mut read4).await.unwrap().unwrap();
    let r5 = attempt(&b, Kind::RwLock, reader, None).await.expect("readers share");
    for node in [r3, r4, r5] {
        node.leave().await.unwrap();
    }
    assert!(attempt(&b, Kind::RwLock, writer, None).await.is_some());
}

#[tokio::test]
async fn a_reader_behind_a_writer_that_gives_up_is_admitted_beside_the_reader_ahead() {
    let server = server().await;
    let (a, b) = (client(&server, "").await, client(&server, "").await);
    let (_, r1) = join(&a, Kind::RwLock, Claim::Shared, None).await;
    let (_, w) = join(&b, Kind::RwLock, Claim::Exclusive, None).await;
    let (_, r2) = join(&b, Kind::RwLock, Claim::Shared, None).await;
    let read = wait(&r2);
    w.leave().await.unwrap();
    soon(read).await.unwrap().unwrap();
    assert!(r1.state().lost().is_none());
}

#[tokio::test]
async fn permits_wake_the_head_whichever_node_leaves_and_then_the_next() {
    let server = server().await;
    let (a, b) = (client(&server, "").await, client(&server, "").await);
    let one = Claim::Permits(1);
    //  CHAIN-PERMITS-HEAD-AND-MARKS: n = 2, A and B hold, C and D wait; once A leaves first, once B.
    for first_to_leave in [0, 1] {
        let (in1, n1) = join(&a, Kind::Semaphore, one, Some(2)).await;
        let (in2, n2) = join(&b, Kind::Semaphore, one, Some(2)).await;
        let (in3, n3) = join(&a, Kind::Semaphore, one, Some(2)).await;
        let (in4, n4) = join(&b, Kind::Semaphore, one, Some(2)).await;
        assert_eq!((in1, in2, in3, in4), (true, true, false, false));
        let (mut third, mut fourth) = (wait(&n3), wait(&n4));
        let holders = [n1, n2];
        holders[first_to_leave].leave().await.unwrap();
        soon(&mut third).await.unwrap().unwrap();
        still_waits(&mut fourth).await;
        holders[1 - first_to_leave].leave().await.unwrap();
        soon(&mut fourth).await.unwrap().unwrap();
        let listed = a
            .backend()
            .list(&ask(Kind::Semaphore, one, None, Patience::Try).queue, Page::new(0, 9))
            .await
            .unwrap();
        assert!(
            listed.len() == 2 && listed.iter().all(|entry| entry.admitted && entry.label == "claims"),
            "{listed:?}"
        );
        n3.leave().await.unwrap();
        n4.leave().await.unwrap();
    }
    assert_eq!(keys(&server, "latchwork/semaphore/").await, [""; 0]);
}

#[tokio::test]
async fn weights_are_all_or_none_and_nobody_overtakes() {
    let server = server().await;
    let client = client(&server, "").await;
    let (_, n1) = join(&client, Kind::Semaphore, Claim::Permits(2), Some(3)).await;
    let before = revision(&server).await;
    assert!(attempt(&client, Kind::Semaphore, Claim::Permits(2), Some(3)).await.is_none());
    assert_eq!(revision(&server).await, before, "a refused try leaves nothing, not for a moment");
    let n2 = attempt(&client, Kind::Semaphore, Claim::Permits(1), Some(3)).await.expect("it fits");
    n2.leave().await.unwrap();
    let (admitted, n3) = join(&client, Kind::Semaphore, Claim::Permits(3), None).await;
    assert!(!admitted);
    assert!(attempt(&client, Kind::Semaphore, Claim::Permits(1), None).await.is_none(), "it would overtake");
    let waiting = wait(&n3);
    n1.leave().await.unwrap();
    soon(waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn another_limit_is_a_conflict_and_a_new_one_wakes_the_head() {
    let server = server().await;
    let client = client(&server, "").await;
    let one = Claim::Permits(1);
    let conflicts = |limit, weight| {
        let client = client.clone();
        async move {
            for patience in [Patience::Wait, Patience::Try] {
                let join = ask(Kind::Semaphore, Claim::Permits(weight), limit, patience);
                let error = client.backend().join(&join).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
        }
    };
    conflicts(None, 1).await;
    let first = attempt(&client, Kind::Semaphore, one, Some(1)).await.expect("it is free");
    conflicts(Some(2), 1).await;
    conflicts(Some(1), 2).await;
    conflicts(None, 2).await;
    let (admitted, second) = join(&client, Kind::Semaphore, one, None).await;
    assert!(!admitted);
    let waiting = wait(&second);
    etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "2"]).await;
    soon(waiting).await.unwrap().unwrap();
    assert!(first.state().lost().is_none());
    first.leave().await.unwrap();
    second.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, ["latchwork/limit/semaphore/a"], "a stored limit stays");
}

#[tokio::test]
async fn a_try_is_admitted_by_the_limit_of_its_own_instant_only() {
    let server = server().await;
    let direct = client(&server, "").await;
    let (proxy, slow) = proxied(&server, "").await;
    let (_, two) = join(&direct, Kind::Semaphore, Claim::Permits(2), Some(3)).await;
    // The client reads that there is room, and the limit falls before its try.
    for limit in [None, Some(3)] {
        let mut read = proxy.hold_reply_to(|chunk| holds(chunk, b"limit/semaphore/a"));
        let asked = ask(Kind::Semaphore, Claim::Permits(1), limit, Patience::Try);
        let trying = tokio::spawn({
            let slow = slow.clone();
            async move { slow.backend().join(&asked).await }
        });
        soon(read.fired()).await.unwrap();
        etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "2"]).await;
        proxy.resume();
        match (limit, soon(trying).await.unwrap()) {
            (None, answer) => assert!(matches!(answer, Ok(Joined::Refused)), "{answer:?}"),
            (Some(_), answer) => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict),
        }
        assert_eq!(keys(&server, "latchwork/semaphore/").await.len(), 1, "the try left its node");
        etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "3"]).await;
    }
    assert!(two.state().lost().is_none());
}

/// The join creates its node before it knows the limit. The delete that takes the node back may
/// land at any time, so no later request may create a node of that name.
#[tokio::test]
async fn a_join_that_does_not_fit_and_is_perhaps_not_taken_back_is_over() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "").await;
    let queue = b"latchwork/semaphore/a/";
    client
        .backend()
        .set_limit(&ask(Kind::Semaphore, Claim::Shared, None, Patience::Wait).queue, 2)
        .await
        .unwrap();
    let too_wide = ask(Kind::Semaphore, Claim::Permits(3), None, Patience::Wait);
    let mut parked = proxy.park_request(move |chunk| holds(chunk, queue) && !holds(chunk, b"permits"));
    let over = client.backend().join(&too_wide).await.unwrap_err();
    parked.caught().await.unwrap();
    assert_eq!(over.lost_reason(), Some(LostReason::Expired), "{over}");
    client.backend().abandon(&too_wide).await.unwrap();
    etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "3"]).await;
    let (admitted, node) = join(&client, Kind::Semaphore, Claim::Permits(3), None).await;
    parked.deliver().await.unwrap();
    assert!(admitted);
    assert_eq!(keys(&server, "latchwork/semaphore/").await.len(), 1, "the next one holds");
    node.leave().await.unwrap();
}

#[tokio::test]
async fn a_limit_that_another_program_wrote_is_followed_and_one_that_is_no_number_is_a_conflict() {
    let server = server().await;
    let client = client(&server, "").await;
    etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "03"]).await;
    for limit in [None, Some(3)] {
        for patience in [Patience::Wait, Patience::Try] {
            let asked = ask(Kind::Semaphore, Claim::Permits(3), limit, patience);
            let Joined::Admitted(node) = client.backend().join(&asked).await.unwrap() else {
                panic!("it is free")
            };
            node.leave().await.unwrap();
        }
    }
    etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "three"]).await;
    for patience in [Patience::Wait, Patience::Try] {
        let asked = ask(Kind::Semaphore, Claim::Permits(3), Some(3), patience);
        let error = client.backend().join(&asked).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    assert_eq!(keys(&server, "latchwork/semaphore/").await, [""; 0]);
}

#[tokio::test]
async fn a_lowered_limit_revokes_nobody_and_hides_no_holder() {
    let server = server().await;
    let (a, b) = (client(&server, "").await, client(&server, "").await);
    //  CHAIN-LIMIT-CHANGE-MARKS-HOLDERS: permits(3), A(2) and B(1) hold, the limit falls to 2: to C, B looks like a waiter.
    let (_, two) = join(&a, Kind::Semaphore, Claim::Permits(2), Some(3)).await;
    let (_, one) = join(&b, Kind::Semaphore, Claim::Permits(1), Some(3)).await;
    etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "2"]).await;
    let (admitted, next) = join(&a, Kind::Semaphore, Claim::Permits(1), None).await;
    assert!(!admitted);
    let mut waiting = wait(&next);
    still_waits(&mut waiting).await;
    two.leave().await.unwrap();
    soon(waiting).await.unwrap().unwrap();
    assert!(one.state().lost().is_none() && next.state().lost().is_none());
}
