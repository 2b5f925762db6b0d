//! ELECTION-: who leads, and who sees it.

use std::ops::ControlFlow;

use latchwork_core::recipes::{Election, Leader, Leading, Observer};
use latchwork_core::{Ended, ErrorKind, LostReason};
use tokio::task::JoinHandle;

use crate::actions::in_time;
use crate::bounds::{NOISE, QUIET_TTL};
use crate::case::cases;
use crate::testbed::Client;
use crate::waits::{soon, until, within};

fn election(client: &Client) -> Election {
    client.coordinator.election("a").expect("a good key")
}

async fn campaign(election: &Election, data: &str) -> Leader {
    soon("campaign", election.campaign(data.as_bytes())).await.expect("leads")
}

/// Stands in the background, as the `place`-th in the queue.
async fn stand(
    election: &Election,
    data: &'static str,
    place: usize,
) -> JoinHandle<latchwork_core::Result<Leader>> {
    let candidate = election.clone();
    let standing = tokio::spawn(async move { candidate.campaign(data.as_bytes()).await });
    let stands = || async { soon("list", election.queue(0, 100)).await.expect("listed").len() == place };
    until("it stands", stands).await;
    standing
}

async fn elected(standing: JoinHandle<latchwork_core::Result<Leader>>) -> Leader {
    soon("the next leader", standing).await.expect("no panic").expect("leads")
}

async fn observe(election: &Election) -> Observer {
    soon("observe", election.observe()).await.expect("observed")
}

/// Whom an observer sees next: the data, if anybody leads.
async fn next(observer: &mut Observer) -> Option<String> {
    let leading = soon("news", observer.changed()).await.expect("observed");
    leading.map(|leading| text(&leading))
}

fn text(leading: &Leading) -> String {
    String::from_utf8(leading.data.to_vec()).expect("text")
}

cases! {
    "ELECTION-TERM" =>
    /// candidates lead one at a time, in the order of their coming, and terms rise; a leader that
    /// resigns is followed at once
    async fn election_term_rises_from_leader_to_leader(context) {
        let clients = [context.client().await, context.client().await, context.client().await];
        let [one, two, three] = [0, 1, 2].map(|at| election(&clients[at]));
        let first = campaign(&one, "first").await;
        let second = stand(&two, "second", 2).await;
        let third = stand(&three, "third", 3).await;
        assert!(soon("try", one.try_campaign(b"no")).await.expect("answered").is_none(), "somebody leads");
        let seen = soon("leader", three.leader()).await.expect("read").expect("it leads");
        assert_eq!((seen.term, text(&seen)), (first.term(), "first".to_owned()));
        assert!(!second.is_finished() && !third.is_finished(), "two lead");
        in_time(first.resign().await.expect("resigned"));
        let second = elected(second).await;
        assert!(!third.is_finished() && first.term() < second.term(), "{:?} {:?}", first.term(), second.term());
        assert_eq!(text(&soon("leader", one.leader()).await.expect("read").expect("it leads")), "second");
        // Dropped, not resigned.
        let term = second.term();
        drop(second);
        let third = elected(third).await;
        assert!(term < third.term());
        assert_eq!((first.is_held(), third.is_held()), (false, true));
        in_time(third.resign().await.expect("resigned"));
        assert_eq!(soon("leader", two.leader()).await.expect("read"), None);
        let long = vec![0; 4_001];
        let error = one.campaign(&long).await.expect_err("too long");
        assert_eq!((error.argument(), error.operation(), error.key()), (Some("data"), Some("campaign"), Some("a")));
        let error = clients[0].coordinator.election(latchwork_core::Address::exact("/a")).expect_err("exact");
        assert_eq!(error.argument(), Some("key"), "{error}");
    }

    "ELECTION-OBSERVE" =>
    /// an observer sees each leader, what it proclaims, and that nobody leads, as it happens
    async fn election_observe_sees_leaders_and_gaps(context) {
        // An observer looks by itself once in a third of its TTL: not within this case.
        let observing = context.client_with(&context.config(QUIET_TTL)).await;
        let (one, two) = (context.client().await, context.client().await);
        let mut observer = observe(&election(&observing)).await;
        assert_eq!(next(&mut observer).await, None);
        let leader = campaign(&election(&one), "one").await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("one"));
        soon("proclaim", leader.proclaim(b"one, again")).await.expect("leads");
        assert_eq!(next(&mut observer).await.as_deref(), Some("one, again"));
        in_time(leader.resign().await.expect("resigned"));
        assert_eq!(next(&mut observer).await, None);
        let error = leader.proclaim(b"no").await.expect_err("resigned");
        assert_eq!(error.kind(), &ErrorKind::NotHeld, "{error}");
        let leader = campaign(&election(&two), "two").await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("two"));
        drop(leader);
        assert_eq!(next(&mut observer).await, None);
        let late = observe(&election(&observing)).await;
        drop(late);
    }

    "ELECTION-OBSERVE" =>
    /// the death of a leader is seen: with the next one, or without
    async fn election_observe_sees_a_death(context) {
        let (observing, follows) = (context.mortal().await, context.client().await);
        let (followed, alone) = (context.mortal().await, context.mortal().await);
        let mut observer = observe(&election(&observing)).await;
        assert_eq!(next(&mut observer).await, None);
        let first = campaign(&election(&followed), "followed").await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("followed"));
        let standing = stand(&election(&follows), "next", 2).await;
        let recovery = context.recovery(&followed);
        followed.coordinator.crash().await;
        let second = within(recovery, "the next leader", standing).await.expect("no panic").expect("leads");
        // That nobody led may be seen before.
        while next(&mut observer).await.as_deref() != Some("next") {}
        assert!(first.term() < second.term() && !first.is_held());
        in_time(second.resign().await.expect("resigned"));
        assert_eq!(next(&mut observer).await, None);
        let last = campaign(&election(&alone), "alone").await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("alone"));
        alone.coordinator.crash().await;
        let seen = context.recovery(&alone) + observing.ttl() / 3 + NOISE;
        let gone = within(seen, "that nobody leads", observer.changed()).await.expect("observed");
        assert_eq!((gone, last.is_held()), (None, false));
        // What it announced stays until the next leader's.
        let tidies = campaign(&election(&observing), "tidies").await;
        in_time(tidies.resign().await.expect("resigned"));
    }

    "ELECTION-LOSS" =>
    /// a leader that was removed is told, and what it proclaims after that is not seen
    async fn election_loss_is_told_and_nothing_is_proclaimed_after_it(context) {
        let (one, two) = (context.client().await, context.client().await);
        let leader = campaign(&election(&one), "one").await;
        let standing = stand(&election(&two), "two", 2).await;
        let lost = leader.lost();
        // One proclamation comes late, when another leads.
        let mut late = one.link.park("a");
        let meanwhile = async {
            soon("catch", late.caught()).await.expect("caught");
            let (removes, term) = (election(&two), leader.term());
            assert!(soon("force_release", removes.force_release(term.sequence())).await.expect("removed"));
            let next = elected(standing).await;
            soon("deliver", late.deliver()).await;
            next
        };
        // It is made again by itself, while it leads.
        let (_proclaimed, next) = tokio::join!(soon("proclaim", leader.proclaim(b"late")), meanwhile);
        let error = soon("proclaim", leader.proclaim(b"no")).await.expect_err("it leads no more");
        assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
        assert_eq!(soon("its loss", lost).await, Ended::Lost(LostReason::Revoked));
        let seen = soon("leader", election(&one).leader()).await.expect("read").expect("somebody leads");
        assert_eq!((seen.term, text(&seen)), (next.term(), "two".to_owned()));
        in_time(next.resign().await.expect("resigned"));
    }

    "ELECTION-TERM" =>
    /// a candidate that leads again and again does its work under each leadership, and stands again
    /// when it was lost
    async fn election_term_is_led_again_and_again(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (candidate, removes) = (election(&one), election(&two));
        let mut terms = Vec::new();
        let led = candidate.lead(b"again", |leader| {
            terms.push(leader.term());
            let (times, removes) = (terms.len(), removes.clone());
            async move {
                match times {
                    1 => ControlFlow::Continue(()),
                    2 => {
                        let removed = removes.force_release(leader.term().sequence());
                        assert!(soon("force_release", removed).await.expect("removed"));
                        // Dropped here, when the loss is told.
                        std::future::pending().await
                    }
                    _ => ControlFlow::Break("done"),
                }
            }
        });
        assert_eq!(soon("the work", led).await.expect("led"), "done");
        assert_eq!(terms.len(), 3);
        assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
        assert_eq!(soon("leader", removes.leader()).await.expect("read"), None);
    }
}
