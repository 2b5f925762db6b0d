//! ELECTION-DATA: data of candidates and leaders.

use latchwork_core::recipes::Leader;
use latchwork_core::{ErrorKind, Key};

use super::election::{campaign, election, leads, text};
use super::key::with_exact_addresses;
use crate::actions::{close, queued};
use crate::case::cases;
use crate::errors::fails;
use crate::testbed::Client;
use crate::waits::soon;

cases! {
    "ELECTION-DATA" =>
    /// a candidate's data is visible in its place, also while it waits, and disappears with it
    async fn election_data_disappears_with_its_candidate(context) {
        let [one, two] = context.clients().await;
        let (mine, theirs) = (election(&one), election(&two));
        let whole = vec![0xff; 4_096];
        let leader = soon("campaign", mine.campaign(&whole)).await.expect("leads");
        let standing = queued(theirs.campaign(b"").label("its label"), mine.queue(), 2).await;
        let entries = || async { soon("list", mine.queue().first(10)).await.expect("listed") };
        let seen = entries().await;
        assert_eq!((&*seen[0].data, &*seen[1].data), (&whole[..], &b""[..]));
        assert_eq!((seen[0].label.as_str(), seen[1].label.as_str()), (one.coordinator.label(), "its label"));
        assert_eq!((seen[0].admitted, seen[1].admitted), (true, false));
        soon("proclaim", leader.proclaim(b"less")).await.expect("leads");
        let seen = entries().await;
        assert_eq!((&*seen[0].data, seen[0].sequence), (&b"less"[..], leader.token().sequence()));
        drop(leader);
        let next = standing.guard().await;
        let leading = Leader { term: next.token(), data: (*b"").into() };
        assert_eq!(soon("leader", mine.leader()).await.expect("read"), Some(leading));

        let long = [0; 4_097];
        let error = theirs.campaign(long).await.expect_err("too long");
        assert_eq!((error.argument(), error.operation(), error.key()), (Some("data"), Some("campaign"), Some("a")));
        let error = next.proclaim(&long).await.expect_err("too long");
        assert_eq!((error.argument(), error.operation(), error.key()), (Some("data"), Some("proclaim"), Some("a")));
        next.release().await.expect("resigned");
        fails(next.proclaim(b"no").await, ErrorKind::NotHeld, "resigned");
    }

    "ELECTION-DATA" =>
    /// clients of different namespaces share an election at an exact address and see each other's data, and new data
    /// unless other programs do not support that
    async fn election_data_is_seen_at_an_exact_address(context) {
        let Some([one, other]) = with_exact_addresses(context).await else { return };
        let name = context.fixture.exact_name();
        let exact = |client: &Client| client.coordinator.election(Key::exact(&name)).expect("a good name");
        let (mine, theirs) = (exact(&one), exact(&other));
        let leader = campaign(&mine, "one").await;
        assert!(soon("try", theirs.try_campaign(b"no")).await.expect("answered").is_none(), "it is one election");
        let mut observer = soon("observe", theirs.watch()).await.expect("observed");
        let mut seen = async || {
            let leading = soon("news", observer.changed()).await.expect("observed");
            leading.map(|leading| (leading.term, text(&leading.data)))
        };
        assert_eq!(seen().await, Some((leader.token(), "one".to_owned())));
        match soon("proclaim", leader.proclaim(b"one, again")).await {
            Ok(()) => assert_eq!(seen().await, Some((leader.token(), "one, again".to_owned()))),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
                assert_eq!(leads(&theirs).await.as_deref(), Some("one"));
            }
        }
        leader.release().await.expect("resigned");
        assert_eq!(seen().await, None);
        let next = campaign(&theirs, "other").await;
        assert!(leader.token() < next.token());
        assert_eq!(seen().await, Some((next.token(), "other".to_owned())));
        next.release().await.expect("resigned");
        close(&other).await;
    }
}
