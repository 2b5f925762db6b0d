//! ELECTION-OBSERVE: observers.

use std::time::Duration;

use latchwork_core::recipes::{Leader, Watch};
use latchwork_core::{ErrorKind, Token};

use super::election::{campaign, election, stand, text};
use crate::actions::close;
use crate::bounds::{ANSWER, CLEAN_UP, LONG_TTL, PATIENCE};
use crate::case::cases;
use crate::errors::fails_for;
use crate::testbed::{Client, Fault};
use crate::waits::{soon, within};

async fn observe(client: &Client) -> Watch<Option<Leader>> {
    soon("observe", election(client).watch()).await.expect("observed")
}

async fn seen(observer: &mut Watch<Option<Leader>>) -> Option<Leader> {
    // Before the re-check.
    within(CLEAN_UP, "news", observer.changed()).await.expect("observed")
}

async fn next(observer: &mut Watch<Option<Leader>>) -> Option<String> {
    seen(observer).await.map(|leading| text(&leading.data))
}

async fn terms_until(observer: &mut Watch<Option<Leader>>, data: &str) -> Vec<Token> {
    let mut terms = Vec::new();
    loop {
        // On etcd the observer reads twice after a reconnect, and each read may take a request timeout.
        let leading = within(CLEAN_UP + 2 * ANSWER, "news", observer.changed()).await.expect("observed");
        terms.extend(leading.as_ref().map(|leading| leading.term));
        if leading.is_some_and(|leading| text(&leading.data) == data) {
            return terms;
        }
    }
}

cases! {
    "ELECTION-OBSERVE" =>
    /// an observer sees each leader, its proclamations, and the absence of a leader, as they happen
    async fn election_observe_sees_leaders_and_gaps(context) {
        let observing = context.quiet().await;
        let [one, two] = context.clients().await;
        let mut observer = observe(&observing).await;
        assert_eq!(next(&mut observer).await, None);
        let leader = campaign(&election(&one), "one").await;
        assert_eq!(seen(&mut observer).await.map(|leading| leading.term), Some(leader.token()));
        for data in ["one, again", "one, at last"] {
            soon("proclaim", leader.proclaim(data.as_bytes())).await.expect("leads");
            assert_eq!(next(&mut observer).await.as_deref(), Some(data));
        }
        assert!(observer.is_current());
        leader.release().await.expect("resigned");
        assert_eq!(next(&mut observer).await, None);
        let leader = campaign(&election(&two), "two").await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("two"));
        let standing = stand(&election(&one), "three", 2).await;
        drop(leader);
        let third = standing.guard().await;
        assert_eq!(*terms_until(&mut observer, "three").await.last().expect("it leads"), third.token());
        let late = observe(&observing).await;
        assert_eq!(late.latest().expect("observed").map(|leading| leading.term), Some(third.token()));
        drop(late);
        third.release().await.expect("resigned");
        assert_eq!(next(&mut observer).await, None);
    }

    "ELECTION-OBSERVE" =>
    /// an observer sees the death of a leader when its lease has ended, with or without a next leader
    async fn election_observe_sees_a_death(context) {
        let observing = context.quiet().await;
        let (follows, followed, alone) =
            (context.client().await, context.doomed().await, context.doomed().await);
        let mut observer = observe(&observing).await;
        assert_eq!(next(&mut observer).await, None);
        let first = campaign(&election(&followed), "followed").await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("followed"));
        let standing = stand(&election(&follows), "next", 2).await;
        let bound = context.over(&followed);
        context.kill(&followed).await;
        let second = within(bound, "the next leader", standing.outcome()).await.expect("leads");
        // The gap without a leader may come first.
        assert_eq!(terms_until(&mut observer, "next").await, [second.token()]);
        assert!(first.token() < second.token() && !first.is_held());
        second.release().await.expect("resigned");
        assert_eq!(next(&mut observer).await, None);
        let last = campaign(&election(&alone), "alone").await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("alone"));
        let bound = context.over(&alone);
        context.kill(&alone).await;
        let gone = within(bound, "that nobody leads", observer.changed()).await.expect("observed");
        assert_eq!((gone, last.is_held()), (None, false));
    }

    "ELECTION-OBSERVE" =>
    /// an observer that was cut off sees the leader after it has reconnected, and its terms rise
    async fn election_observe_heals_a_gap(context) {
        let observing = context.mortal().await;
        let (one, two) = (context.patient(LONG_TTL).await, context.patient(LONG_TTL).await);
        let first = campaign(&election(&one), "first").await;
        let mut observer = observe(&observing).await;
        assert_eq!(next(&mut observer).await.as_deref(), Some("first"));
        assert!(context.can(Fault::Cut));
        let mut terms = vec![first.token()];
        let mut last = first;
        for (round, how_long) in [observing.ttl() / 2, observing.ttl() * 2].into_iter().enumerate() {
            observing.link.cut();
            last.release().await.expect("resigned");
            let unseen = campaign(&election(&two), "unseen").await;
            unseen.release().await.expect("resigned");
            tokio::time::sleep(how_long).await;
            let data = format!("leads after {round}");
            last = campaign(&election(&one), &data).await;
            observing.link.heal();
            terms.extend(terms_until(&mut observer, &data).await);
            assert_eq!(terms.last(), Some(&last.token()));
        }
        assert!(terms.is_sorted(), "{terms:?}");
        last.release().await.expect("resigned");
        assert_eq!(next(&mut observer).await, None);
    }

    "ELECTION-OBSERVE" alone =>
    /// a hundred observers of one election on one client cost the server the same as one observer, and all see a change
    async fn election_observe_is_shared_by_the_observers_of_a_client(context) {
        const OBSERVERS: usize = 100;
        let [one, two] = context.clients().await;
        let leader = campaign(&election(&one), "before").await;
        let mut observers = Vec::new();
        for _ in 0..OBSERVERS {
            let mut observer = observe(&two).await;
            assert_eq!(next(&mut observer).await.as_deref(), Some("before"));
            observers.push(observer);
        }
        let before = context.fixture.requests().await.ok();
        soon("proclaim", leader.proclaim(b"after")).await.expect("leads");
        for observer in &mut observers {
            assert_eq!(next(observer).await.as_deref(), Some("after"));
        }
        if let Some(before) = before {
            let asked = context.requests().await - before;
            assert!(asked < OBSERVERS as u64 / 2, "{asked} requests for one change");
        }
        observers.truncate(1);
        leader.release().await.expect("resigned");
        assert_eq!(next(&mut observers[0]).await, None);
    }

    "ELECTION-OBSERVE" =>
    /// an observer of a closed client ends with the reason
    async fn election_observe_ends_with_a_reason(context) {
        let client = context.client().await;
        let mut observer = observe(&client).await;
        assert_eq!(next(&mut observer).await, None);
        let waiting = tokio::spawn(async move { (observer.changed().await, observer) });
        tokio::time::sleep(Duration::from_millis(10)).await;
        close(&client).await;
        let (ended, observer) = within(PATIENCE, "the end", waiting).await.expect("no panic");
        fails_for(ended, ErrorKind::Closed, "a", "closed");
        assert!(observer.latest().is_err() && !observer.is_current());
    }
}
