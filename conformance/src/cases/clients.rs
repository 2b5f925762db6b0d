//! CLIENT- and LAYOUT-: connected clients and layouts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::{join, join_all, join3};
use latchwork_core::backend::decide::renewal_period;
use latchwork_core::backend::{LAYOUT, clients_address, stamp_address};
use latchwork_core::{ClientRecord, Error, ErrorKind};

use crate::actions::{acquire_and_release, close, mutex, operator_of};
use crate::bounds::{CLEAN_UP, SHORT_TTL};
use crate::case::cases;
use crate::context::Context;
use crate::errors::{fails, says};
use crate::testbed::{Client, Fault};
use crate::waits::{soon, until, until_within, within};

pub(super) const PAUSE: Duration = Duration::from_millis(5);
pub(super) const MANY_COME: Duration = Duration::from_secs(60);

pub(super) async fn listed(by: &Client) -> Vec<ClientRecord> {
    soon("the clients", by.coordinator.clients().first(1000)).await.expect("listed")
}

async fn record(by: &Client, of: &Client) -> Option<ClientRecord> {
    listed(by).await.into_iter().find(|record| record.label == of.coordinator.label())
}

/// A renewal may be late while clients come and go.
pub(super) const STAYING_TTL: Duration = Duration::from_millis(7_500);
const _: () = assert!(
    STAYING_TTL.as_millis() < CLEAN_UP.as_millis(),
    "a node that a close leaves to its lease expires in time"
);

pub(super) async fn build(context: &Context, layout: u32, label: &str) -> Result<Client, Error> {
    build_for(context, STAYING_TTL, layout, label).await
}

/// Leftovers of a refused client disappear soon.
pub(super) async fn brief_build(context: &Context, layout: u32, label: &str) -> Result<Client, Error> {
    build_for(context, SHORT_TTL, layout, label).await
}

pub(super) async fn operator_build(context: &Context, layout: u32) -> Client {
    context.client_with(&context.config(STAYING_TTL).as_of_layout(layout).as_operator()).await
}

async fn build_for(context: &Context, ttl: Duration, layout: u32, label: &str) -> Result<Client, Error> {
    let mut config = context.config(ttl);
    config.label = Some(label.to_owned());
    soon("connect", context.fixture.client(&config.as_of_layout(layout))).await
}

async fn stamp(context: &Context, by: &Client) -> (String, u64) {
    let cell = stamp_address(&context.fixture.config().namespace).expect("a good namespace");
    let cell =
        soon("the stamp", by.coordinator.backend().read_cell(&cell)).await.expect("read").expect("stamped");
    (String::from_utf8_lossy(&cell.value).into_owned(), cell.version.number())
}

fn says_older(text: &str) -> bool {
    text.split('&').any(|field| field == format!("layout={LAYOUT}"))
}

fn says_layout(text: &str, layout: u32) -> bool {
    text.split('&').any(|field| field == format!("layout={layout}")) && !text.contains("next=")
}

cases! {
    "CLIENT-LISTED" =>
    /// the connected clients of a namespace are listed in the order of their connects, each with its record, page by
    /// page, without other namespaces; a closed client is not listed
    async fn client_listed_in_order_with_its_record(context) {
        let mut clients = Vec::new();
        for label in ["first", "second", "third"] {
            clients.push(build(context, LAYOUT, label).await.expect("connected"));
        }
        let mut elsewhere = context.fixture.config();
        elsewhere.namespace.push_str("-2");
        let elsewhere = context.client_with(&elsewhere).await;
        let all = listed(&clients[1]).await;
        let labels: Vec<_> = all.iter().map(|record| record.label.as_str()).collect();
        assert_eq!(labels, ["first", "second", "third"]);
        assert!(all.is_sorted_by(|one, next| one.sequence < next.sequence), "{all:?}");
        for ClientRecord { host, version, layout, .. } in &all {
            assert!(!host.is_empty() && !version.is_empty(), "{all:?}");
            assert_eq!(*layout, Some(LAYOUT));
        }
        let registry = clients[2].coordinator.clients();
        let numbers = |records: Vec<ClientRecord>| records.into_iter().map(|record| record.sequence).collect::<Vec<_>>();
        let first = soon("a page", registry.page(None, 2)).await.expect("listed");
        let rest = soon("a page", registry.page(first.next.as_deref(), 2)).await.expect("listed");
        assert_eq!(rest.next, None);
        let streamed: Vec<_> = soon("all", registry.into_stream().try_collect()).await.expect("listed");
        assert_eq!([numbers(first.items), numbers(rest.items)].concat(), numbers(all.clone()));
        assert_eq!(numbers(streamed), numbers(all));
        assert_eq!(listed(&elsewhere).await.len(), 1, "itself");
        close(&clients.remove(0)).await;
        let left: Vec<_> = listed(&clients[0]).await.into_iter().map(|record| record.label).collect();
        assert_eq!(left, ["second", "third"]);
    }

    "CLIENT-GONE" clock =>
    /// a dead client is listed for at most its TTL and the bound; idle clients stay listed
    async fn client_gone_within_its_lease_after_a_death(context) {
        let watching = context.client_with(&context.config(STAYING_TTL)).await;
        let dead = context.mortal().await;
        let before = (record(&watching, &watching).await, record(&watching, &dead).await);
        assert!(before.0.is_some() && before.1.is_some(), "{before:?}");
        latchwork_core::crash(&dead.coordinator).await;
        until_within(context.recovery(&dead), "the dead client is gone", || async { record(&watching, &dead).await.is_none() }).await;
        let numbers = |record: Option<ClientRecord>| record.map(|record| record.sequence);
        assert_eq!(numbers(record(&watching, &watching).await), numbers(before.0), "the idle client must stay listed");
    }

    "CLIENT-GONE" clock =>
    /// a client that is cut off just after an acquisition has lost its hold before it leaves the list
    async fn client_gone_after_its_hold_was_lost(context) {
        let watching = context.client_with(&context.config(STAYING_TTL)).await;
        let away = context.mortal().await;
        let (lock, lease) = (mutex(&away, "a"), away.coordinator.lease());
        // A renewal proves the registration. The hold is acquired as late after it as possible.
        let clock = lease.clock().clone();
        clock.sleep_until(clock.now() + renewal_period(away.ttl()) * 9 / 10).await;
        let hold = soon("acquire", lock.acquire()).await.expect("free");
        context.cut_off(&away).await;
        let bound = context.recovery(&away) + CLEAN_UP;
        until_within(bound, "the client is gone", || async { record(&watching, &away).await.is_none() }).await;
        assert!(hold.check().is_err(), "it counts on its hold, and an operator does not see it");
        away.link.heal();
        acquire_and_release(&mutex(&watching, "a")).await;
    }

    "CLIENT-AGAIN" =>
    /// an idle client that was removed from the registry, by an operator or on the server, registers again
    async fn client_again_registered_after_its_removal(context) {
        let (operator, idle) = (context.client().await, context.mortal().await);
        let queue = clients_address(&context.fixture.config().namespace).expect("a good namespace");
        let mut last = record(&operator, &idle).await.expect("registered").sequence;
        for past_the_library in [false, true] {
            match past_the_library {
                true if !context.can(Fault::Remove) => continue,
                true => context.remove(&queue, last).await,
                false => {
                    let revoked = soon("revoke", operator.coordinator.backend().revoke(&queue, last)).await;
                    assert!(revoked.expect("answered"), "it was there");
                }
            }
            last = again(context, &operator, &idle, last).await;
        }
        acquire_and_release(&mutex(&idle, "a")).await;
    }

    "CLIENT-AGAIN" =>
    /// an idle client that was cut off until its lease was lost registers again when it is reconnected
    async fn client_again_registered_after_a_loss(context) {
        let (operator, idle) = (context.client().await, context.doomed().await);
        let last = record(&operator, &idle).await.expect("registered").sequence;
        context.cut_off(&idle).await;
        let bound = context.over(&idle) + CLEAN_UP;
        until_within(bound, "it is gone", || async { record(&operator, &idle).await.is_none() }).await;
        idle.link.heal();
        again(context, &operator, &idle, last).await;
        acquire_and_release(&mutex(&idle, "a")).await;
    }

    "LAYOUT-STAMP" =>
    /// the first clients of a namespace write its layout once, also if many connect at once; later clients do not
    /// change it
    async fn layout_stamp_is_written_once(context) {
        let clients = join_all((0..8).map(|_| context.client())).await;
        let written = stamp(context, &clients[0]).await;
        assert!(says_layout(&written.0, LAYOUT), "{written:?}");
        let late = context.client().await;
        assert_eq!(stamp(context, &late).await, written);
        assert_eq!(listed(&late).await.len(), 9);
        join_all(clients.iter().map(close)).await;
        assert_eq!(stamp(context, &late).await, written, "it stays");
    }

    "LAYOUT-STAMP" =>
    /// a client that finds a newer layout is refused at its connect, by an error that says what to do, and is not
    /// registered
    async fn layout_stamp_refuses_an_older_build(context) {
        let newer = build(context, LAYOUT + 1, "newer").await.expect("the first");
        assert!(says_layout(&stamp(context, &newer).await.0, LAYOUT + 1));
        let error = fails(brief_build(context, LAYOUT, "older").await, ErrorKind::Misconfigured, "a newer layout");
        let namespace = format!("{:?}", context.fixture.config().namespace);
        let (newer_layout, own) = (format!("has layout {}", LAYOUT + 1), format!("up to {LAYOUT}"));
        says(&error, &["connect", &namespace, &newer_layout, &own, "use a newer build"]);
        until("the refused client must not be registered", || async { listed(&newer).await.len() == 1 }).await;
        assert!(says_layout(&stamp(context, &newer).await.0, LAYOUT + 1), "it stays");
    }

    "LAYOUT-STAMP" =>
    /// a newer build works with an older layout and does not change it: both builds work at the same time, in any order
    /// of connects
    async fn layout_stamp_is_not_raised_by_a_newer_build(context) {
        let older = build(context, LAYOUT, "older").await.expect("the first");
        let newer = build(context, LAYOUT + 1, "newer").await.expect("the newer build must work with the older layout");
        let written = stamp(context, &older).await;
        assert!(says_layout(&written.0, LAYOUT), "{written:?}");
        assert!(record(&older, &newer).await.is_some_and(|record| record.layout == Some(LAYOUT + 1)));
        acquire_and_release(&mutex(&newer, "a")).await;
        close(&older).await;
        let back = build(context, LAYOUT, "back").await.expect("an older build must connect again");
        assert_eq!(stamp(context, &back).await, written);
    }

    "LAYOUT-STAMP" =>
    /// if an older and a newer build connect first at the same time, the older one is refused, or both work with the
    /// older layout
    async fn layout_stamp_of_two_builds_at_once_is_one(context) {
        let (older, newer) = join(brief_build(context, LAYOUT, "older"), build(context, LAYOUT + 1, "newer")).await;
        let newer = newer.expect("the newer build works with both layouts");
        let (text, _) = stamp(context, &newer).await;
        match older {
            Ok(_) => assert!(says_layout(&text, LAYOUT), "{text}"),
            refused => {
                fails(refused, ErrorKind::Misconfigured, "refused");
                assert!(says_layout(&text, LAYOUT + 1), "{text}");
            }
        }
    }

    "LAYOUT-RAISE" =>
    /// a layout is raised only if no older client is registered: the refused call names these clients, and they
    /// continue and connect as before
    async fn layout_raise_waits_for_older_clients(context) {
        let older = build(context, LAYOUT, "the-older-one").await.expect("the first");
        let newer = build(context, LAYOUT + 1, "newer").await.expect("connected");
        let operator = operator_build(context, LAYOUT + 1).await;
        let error = fails(raise(&operator).await, ErrorKind::Conflict, "an older client");
        assert!(error.to_string().contains("\"the-older-one\""), "{error}");
        assert!(says_layout(&stamp(context, &newer).await.0, LAYOUT));
        acquire_and_release(&mutex(&older, "a")).await;
        let another = build(context, LAYOUT, "another").await.expect("nothing has changed");
        let older_operator = operator_build(context, LAYOUT).await;
        assert_eq!(raise(&older_operator).await.expect("raised before"), LAYOUT);
        for client in [older_operator, older, another] {
            close(&client).await;
        }
        for _ in 0..2 {
            assert_eq!(raise(&operator).await.expect("raised"), LAYOUT + 1);
        }
        assert!(says_layout(&stamp(context, &newer).await.0, LAYOUT + 1));
        fails(brief_build(context, LAYOUT, "too-late").await, ErrorKind::Misconfigured, "a newer layout");
        acquire_and_release(&mutex(&newer, "a")).await;
    }

    "LAYOUT-RAISE" =>
    /// a layout is raised while older clients connect all the time: after each raise, no older client is connected
    async fn layout_raise_among_older_clients_that_come_and_go(context) {
        let first = build(context, LAYOUT, "first").await.expect("the first");
        let newer = operator_build(context, LAYOUT + 1).await;
        let is_raised = AtomicBool::new(false);
        let is_older = |client: Client| async move { says_older(&stamp(context, &client).await.0) };
        let comes = |label| come_and_go(context, label, &is_raised, is_older);
        let raises = async {
            close(&first).await;
            tokio::time::sleep(PAUSE / 2).await;
            let raised = loop {
                match operator_of(&newer).raise_layout().await {
                    Ok(layout) => break layout,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                }
                tokio::time::sleep(PAUSE).await;
            };
            is_raised.store(true, Ordering::Release);
            raised
        };
        let (raised, ..) = within(MANY_COME, "raised", join3(raises, comes("one"), comes("two"))).await;
        assert_eq!(raised, LAYOUT + 1);
        until("the refused clients are gone", || async { listed(&newer).await.len() == 1 }).await;
        assert!(says_layout(&stamp(context, &newer).await.0, LAYOUT + 1));
    }
}

/// Each client stays for a moment, and then `is_right` must hold.
pub(super) async fn come_and_go<F: Future<Output = bool>>(
    context: &Context,
    label: &str,
    is_over: &AtomicBool,
    is_right: impl Fn(Client) -> F,
) {
    for _ in 0..20 {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        match brief_build(context, LAYOUT, label).await {
            Ok(client) => {
                tokio::time::sleep(PAUSE).await;
                assert!(is_right(client.clone()).await, "the client registered too late");
                close(&client).await;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}"),
        }
    }
}

pub(super) async fn raise(operator: &Client) -> Result<u32, Error> {
    soon("raise", operator_of(operator).raise_layout()).await
}

async fn again(context: &Context, operator: &Client, idle: &Client, last: u64) -> u64 {
    within(context.recovery(idle) + CLEAN_UP, "it registers anew", async {
        loop {
            match record(operator, idle).await {
                Some(record) if record.sequence != last => {
                    assert!(record.sequence > last, "{record:?} behind {last}");
                    return record.sequence;
                }
                _ => tokio::time::sleep(SHORT_TTL / 30).await,
            }
        }
    })
    .await
}
