//! A leader whose disk stalls answers renewals after its cluster has elected another leader.

use latchwork_core::{LeaseState, LostReason};
use tokio::time::sleep;

use super::times::{HOST, OTHER, connect};
use super::{Mode, Only, Scripted, TTL, kept};

#[tokio::test(start_paused = true)]
async fn lease_that_only_a_stalled_leader_renews_ends_at_its_deadline() {
    let leader = Scripted::start(HOST, Mode::Answers);
    let session = kept(&connect(&[HOST]).await).await;
    sleep(3 * TTL).await;
    assert_eq!(session.lease.state(), LeaseState::Live, "the control");
    leader.answers(Only::Renewals);
    sleep(TTL).await;
    assert_eq!(session.lease.lost(), Some(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn renewals_of_a_stalled_leader_do_not_count_in_the_term_of_the_next() {
    let (stalled, elected) = (Scripted::start(HOST, Mode::Answers), Scripted::start(OTHER, Mode::Answers));
    let session = kept(&connect(&[HOST, OTHER]).await).await;
    sleep(3 * TTL).await;
    assert_eq!(session.lease.state(), LeaseState::Live, "the control");
    // The client gets answers only from the stalled leader.
    stalled.answers(Only::Renewals);
    elected.knows_term(2);
    elected.answers(Only::NoRenewals);
    sleep(TTL).await;
    assert_eq!(session.lease.lost(), Some(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn lease_outlives_a_stalled_leader_while_another_host_renews_it() {
    for ttls in [1, 5] {
        let (stalled, elected) =
            (Scripted::start(HOST, Mode::Answers), Scripted::start(OTHER, Mode::Answers));
        let session = kept(&connect(&[HOST, OTHER]).await).await;
        sleep(ttls * TTL).await;
        stalled.answers(Only::Renewals);
        elected.knows_term(2);
        sleep(10 * TTL).await;
        assert_eq!(session.lease.lost(), None);
    }
}

/// The first stream waits for its confirmation while the second stream waits for its answer.
#[tokio::test(start_paused = true)]
async fn first_proof_of_several_streams_ends_the_suspension() {
    let leader = Scripted::start(HOST, Mode::Answers);
    let session = kept(&connect(&[HOST]).await).await;
    leader.answers(Only::Renewals);
    leader.set(Mode::Slow(TTL / 60));
    sleep(TTL * 24 / 60).await;
    leader.answers(Only::NoRenewals);
    leader.set(Mode::Slow(2 * TTL));
    sleep(TTL * 22 / 60).await;
    assert_eq!(session.lease.state(), LeaseState::Suspended, "the renewals of both streams are late");
    leader.answers(Only::All);
    leader.set(Mode::Slow(TTL / 60));
    // The first stream is confirmed, and its next renewal is not answered yet.
    sleep(TTL / 24).await;
    assert_eq!(session.lease.state(), LeaseState::Live);
}
