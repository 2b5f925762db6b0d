//! GROUP-: members, and their watches.

use futures_util::future::join_all;
use latchwork_core::recipes::{Group, GroupChanges, GroupMember, Membership, Watch};
use latchwork_core::{ErrorKind, Key, LostReason};
use tokio::time::Instant;

use super::election::text;
use super::node::upkeep;
use crate::actions::{close, without_reply};
use crate::bounds::{CLEAN_UP, QUIET_TTL};
use crate::case::cases;
use crate::errors::{fails, is_lost, refuses};
use crate::testbed::{Client, Fault};
use crate::waits::{soon, within};

fn group(client: &Client) -> Group {
    client.coordinator.group("a").expect("a good key")
}

async fn join(client: &Client, data: &str) -> Membership {
    soon("join", group(client).join(data.as_bytes())).await.expect("joined")
}

async fn update(membership: &Membership, data: &str) {
    soon("update", membership.update(data.as_bytes())).await.expect("a member");
}

async fn leave(membership: &Membership) {
    soon("leave", membership.release()).await.expect("left");
}

async fn members(group: &Group) -> Vec<String> {
    data(&soon("members", group.members()).await.expect("read"))
}

fn data(members: &[GroupMember]) -> Vec<String> {
    members.iter().map(|member| text(&member.data)).collect()
}

async fn watch(client: &Client) -> Watch<Vec<GroupMember>> {
    soon("watch", group(client).watch()).await.expect("watched")
}

async fn until_members(watch: &mut Watch<Vec<GroupMember>>, expected: &[&str]) {
    while data(&watch.changed().await.expect("watched")) != expected {}
}

/// Before the re-check.
async fn told_members(watch: &mut Watch<Vec<GroupMember>>, expected: &[&str]) {
    within(CLEAN_UP, "the watch reports the members", until_members(watch, expected)).await;
}

async fn changes(watch: &mut Watch<Vec<GroupMember>>) -> [Vec<String>; 3] {
    let changes = within(CLEAN_UP, "the changes", watch.changes()).await.expect("watched");
    let GroupChanges { joined, changed, left } = changes;
    [data(&joined), data(&changed), data(&left)]
}

fn expected(changes: [&[&str]; 3]) -> [Vec<String>; 3] {
    changes.map(|data| data.iter().map(|data| (*data).to_owned()).collect())
}

cases! {
    "GROUP-MEMBERS" =>
    /// all clients see members in the order of joining, with label and data, as they join, change and leave
    async fn group_members_are_seen_in_the_order_of_joining(context) {
        let watching = context.quiet().await;
        let [one, two] = context.clients().await;
        let mut watch = watch(&watching).await;
        told_members(&mut watch, &[]).await;
        let first = join(&one, "first").await;
        told_members(&mut watch, &["first"]).await;
        let second = soon("join", group(&two).join(b"second")).await.expect("joined");
        told_members(&mut watch, &["first", "second"]).await;
        let third = join(&one, "third").await;
        told_members(&mut watch, &["first", "second", "third"]).await;
        let all = soon("members", group(&two).members()).await.expect("read");
        assert_eq!(all, watch.latest().expect("watched"));
        let numbers: Vec<_> = all.iter().map(|member| member.sequence).collect();
        assert_eq!(numbers, [first.sequence(), second.sequence(), third.sequence()]);
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        let labels: Vec<_> = all.iter().map(|member| member.label.as_str()).collect();
        assert_eq!(labels, [one.coordinator.label(), two.coordinator.label(), one.coordinator.label()]);
        update(&first, "first, again").await;
        told_members(&mut watch, &["first, again", "second", "third"]).await;
        leave(&second).await;
        told_members(&mut watch, &["first, again", "third"]).await;
        drop(first);
        told_members(&mut watch, &["third"]).await;
        leave(&third).await;
        told_members(&mut watch, &[]).await;
        fails(third.update(b"no").await, ErrorKind::NotHeld, "it has left");
    }

    "GROUP-MEMBERS" =>
    /// data of a member has up to 4,096 bytes, and a group cannot be at an exact address
    async fn group_members_data_has_up_to_4096_bytes(context) {
        let client = context.client().await;
        let group = group(&client);
        let (whole, long) = ([0xff; 4_096], [0; 4_097]);
        let member = soon("join", group.join(&whole)).await.expect("joined");
        let said = async || soon("members", group.members()).await.expect("read").remove(0).data;
        assert_eq!(&*said().await, &whole[..]);
        soon("update", member.update(b"")).await.expect("a member");
        assert_eq!(&*said().await, b"");
        let too_long = [
            (group.join(&long).await.expect_err("too long"), "join"),
            (member.update(&long).await.expect_err("too long"), "update"),
        ];
        for (error, operation) in too_long {
            assert_eq!((error.argument(), error.operation(), error.key()), (Some("data"), Some(operation), Some("a")));
        }
        refuses(client.coordinator.group(Key::exact("/a")), "key");
        leave(&member).await;
    }

    "GROUP-MEMBERS" =>
    /// a dead member disappears when its lease has ended, and a member that was cut off notices that it is not a member
    /// any more
    async fn group_members_go_with_their_lease(context) {
        let watching = context.quiet().await;
        let (stays, dies, is_cut) = (context.client().await, context.doomed().await, context.doomed().await);
        let (gone, last) = (join(&dies, "dies").await, join(&stays, "stays").await);
        let cut = join(&is_cut, "is cut").await;
        let mut watch = watch(&watching).await;
        told_members(&mut watch, &["dies", "stays", "is cut"]).await;
        assert!(context.can(Fault::Cut));
        let bound = context.over(&dies);
        is_cut.link.cut();
        latchwork_core::crash(&dies.coordinator).await;
        [&is_cut, &dies].into_iter().for_each(|over| context.outlast(over));
        join_all([&is_cut, &dies].map(|over| context.end_lease(over))).await;
        within(bound, "the end of both", until_members(&mut watch, &["stays"])).await;
        assert!(!gone.is_held() && !cut.is_held(), "a lost membership was not noticed");
        is_lost(soon("update", cut.update(b"unheard")).await, LostReason::Expired);
        is_cut.link.heal();
        leave(&last).await;
        told_members(&mut watch, &[]).await;
    }

    "GROUP-MEMBERS" =>
    /// a member that loses replies is listed once, with its latest data, and leaves
    async fn group_members_with_lost_replies_are_listed_once(context) {
        let [one, two] = context.clients().await;
        let sees = group(&two);
        let member = without_reply(&one, "a", join(&one, "joined")).await;
        assert_eq!(members(&sees).await, ["joined"]);
        without_reply(&one, "a", update(&member, "changed")).await;
        assert_eq!(members(&sees).await, ["changed"]);
        let left = without_reply(&one, "a", member.release()).await;
        let is_unknown = |error: &latchwork_core::Error| error.kind() == ErrorKind::OutcomeUnknown;
        assert!(left.as_ref().err().is_none_or(is_unknown), "{left:?}");
        assert_eq!(members(&sees).await, Vec::<String>::new());
    }

    "GROUP-MEMBERS" =>
    /// a group with more members than one page is listed whole
    async fn group_members_of_several_pages(context) {
        const MEMBERS: usize = 501;
        // A busy machine answers many requests late.
        let slow = || context.client_by(QUIET_TTL, |config| config.request_timeout = config.request_timeout.max(QUIET_TTL / 4));
        let (one, two) = (slow().await, slow().await);
        let joining = join_all((0..MEMBERS).map(|number| {
            let group = group(&one);
            async move { group.join(number.to_string().as_bytes()).await.expect("joined") }
        }));
        let mut joined = soon("join", joining).await;
        joined.sort_by_key(Membership::sequence);
        let seen = soon("members", group(&two).members()).await.expect("read");
        let numbers = |members: &[GroupMember]| members.iter().map(|member| member.sequence).collect::<Vec<_>>();
        assert_eq!(numbers(&seen), joined.iter().map(Membership::sequence).collect::<Vec<_>>());
        let mut watch = watch(&two).await;
        assert_eq!(soon("watch", watch.changed()).await.expect("watched"), seen);
        let last = joined.pop().expect("many");
        leave(&last).await;
        let changes = within(CLEAN_UP, "the change", watch.changes()).await.expect("watched");
        assert_eq!(changes, GroupChanges { left: vec![seen[MEMBERS - 1].clone()], ..GroupChanges::default() });
        drop(joined);
        close(&one).await;
    }

    "GROUP-WATCH" =>
    /// a watch reports the members that joined, changed their data or left since the last answer
    async fn group_watch_reports_joins_updates_and_leaves(context) {
        let watching = context.quiet().await;
        let (one, two) = (context.client().await, context.doomed().await);
        let first = join(&one, "first").await;
        let mut watch = watch(&watching).await;
        assert_eq!(changes(&mut watch).await, expected([&["first"], &[], &[]]));
        let second = join(&two, "second").await;
        assert_eq!(changes(&mut watch).await, expected([&["second"], &[], &[]]));
        update(&first, "first, again").await;
        assert_eq!(changes(&mut watch).await, expected([&[], &["first, again"], &[]]));
        let bound = context.over(&two);
        context.kill(&two).await;
        let dead = within(bound, "its death", watch.changes()).await.expect("watched");
        assert_eq!((data(&dead.left), dead.left[0].sequence), (vec!["second".to_owned()], second.sequence()));
        assert!(dead.joined.is_empty() && dead.changed.is_empty(), "{dead:?}");
        leave(&first).await;
        assert_eq!(changes(&mut watch).await, expected([&[], &[], &["first, again"]]));
    }

    "GROUP-WATCH" =>
    /// a watch that was cut off reports the members after it has reconnected
    async fn group_watch_heals_a_gap(context) {
        let (watching, one) = (context.quiet().await, context.client().await);
        let first = join(&one, "first").await;
        let mut watch = watch(&watching).await;
        told_members(&mut watch, &["first"]).await;
        assert!(context.can(Fault::Cut));
        watching.link.cut();
        let second = join(&one, "second").await;
        update(&first, "changed").await;
        let third = join(&one, "third").await;
        leave(&second).await;
        // The outage is noticed by then, before the re-check.
        tokio::time::sleep(CLEAN_UP).await;
        watching.link.heal();
        let healed = soon("the gap is healed", watch.changes()).await.expect("watched");
        let healed = [data(&healed.joined), data(&healed.changed), data(&healed.left)];
        assert_eq!(healed, expected([&["third"], &["changed"], &[]]));
        for member in [first, third] {
            leave(&member).await;
        }
        told_members(&mut watch, &[]).await;
    }

    "GROUP-WATCH" alone =>
    /// a change reaches a thousand watches of twenty clients, and costs the server the same as twenty watches
    async fn group_watch_is_shared_by_the_watches_of_a_client(context) {
        const CLIENTS: usize = 20;
        const WATCHES: usize = 50;
        let config = context.config(QUIET_TTL);
        let one = context.client_with(&config).await;
        let member = join(&one, "before").await;
        let clients = join_all((0..CLIENTS).map(|_| context.client_with(&config))).await;
        let mut watches = Vec::new();
        for client in &clients {
            for _ in 0..WATCHES {
                let mut watch = watch(client).await;
                told_members(&mut watch, &["before"]).await;
                watches.push(watch);
            }
        }
        let (before, began) = (context.fixture.requests().await.ok(), Instant::now());
        update(&member, "after").await;
        for watch in &mut watches {
            told_members(watch, &["after"]).await;
        }
        if let Some(before) = before {
            let asked = context.requests().await - before;
            eprintln!("{}: {asked} requests for a change that {} watches of {CLIENTS} clients saw",
                context.testbed.name(), watches.len());
            let most = (CLIENTS * WATCHES) as u64 / 5 + upkeep(CLIENTS + 1, began.elapsed());
            assert!(asked < most, "{asked} requests for one change");
        }
        drop(watches);
        leave(&member).await;
    }
}
