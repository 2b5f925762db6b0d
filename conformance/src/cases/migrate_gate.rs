//! MIGRATE-GATE: clients of a moved namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join3;
use latchwork_core::backend::decide::moving::gate::Course;
use latchwork_core::backend::{LAYOUT, stamp_address};
use latchwork_core::{Error, ErrorKind, Expected};

use super::clients::{MANY_COME, PAUSE, STAYING_TTL, brief_build, build, come_and_go, listed};
use crate::actions::{acquire_and_release, close, mutex, operator_of};
use crate::bounds::CLEAN_UP;
use crate::case::cases;
use crate::cell_actions::{put, read, write};
use crate::context::Context;
use crate::errors::{fails, says};
use crate::testbed::Client;
use crate::waits::{soon, until, until_within, within};

const ELSEWHERE: &str = "memory://elsewhere?namespace=there";

async fn client(context: &Context, label: &str) -> Result<Client, Error> {
    build(context, LAYOUT, label).await
}

async fn brief_client(context: &Context, label: &str) -> Result<Client, Error> {
    brief_build(context, LAYOUT, label).await
}

async fn operator(context: &Context) -> Client {
    let mut config = context.config(STAYING_TTL).as_operator();
    config.label = Some("an-operator".to_owned());
    context.client_with(&config).await
}

fn assert_sent_on(context: &Context, refused: Result<Client, Error>) {
    let error = fails(refused, ErrorKind::Misconfigured, "the namespace must refuse a plain client");
    let namespace = context.fixture.config().namespace;
    says(&error, &["connect", &format!("{namespace:?}"), &format!("{ELSEWHERE:?}")]);
}

/// As a later version may.
async fn add_to_stamp(context: &Context, operator: &Client, fields: &str) {
    let stamp = stamp_address(&context.fixture.config().namespace).expect("a good namespace");
    let read = read(operator, &stamp).await.expect("stamped");
    let value: Arc<[u8]> = [&read.value, fields.as_bytes()].concat().into();
    write(operator, &stamp, put(Expected::Version(read.version), value)).await;
}

cases! {
    "MIGRATE-GATE" =>
    /// a retired namespace refuses plain clients at their connect, by an error with the new URL, and does not list
    /// them; operators connect, and one of them reopens it
    async fn migrate_gate_sends_plain_clients_on(context) {
        let (one, another) = (operator(context).await, operator(context).await);
        assert_eq!(soon("marker", operator_of(&one).marker()).await.expect("answered"), None, "it is in use");
        for _ in 0..2 {
            soon("retire", operator_of(&one).retire(ELSEWHERE)).await.expect("no other client is connected");
        }
        let marker = soon("marker", operator_of(&another).marker()).await.expect("answered").expect("retired");
        assert_eq!((marker.course, marker.name, marker.url.as_str()), (Course::Leaves, None, ELSEWHERE));
        assert_sent_on(context, brief_client(context, "forgotten").await);
        until("the refused client must not be registered", || async { listed(&one).await.len() == 2 }).await;
        soon("raise", operator_of(&another).raise_layout()).await.expect("raised before");
        assert_sent_on(context, brief_client(context, "forgotten").await);
        fails(soon("retire", operator_of(&another).retire("memory://")).await, ErrorKind::Conflict, "it goes elsewhere");
        close(&one).await;
        assert_sent_on(context, brief_client(context, "forgotten").await);
        assert!(soon("reopen", operator_of(&another).reopen()).await.expect("answered"));
        assert!(!soon("reopen", operator_of(&another).reopen()).await.expect("answered"), "it is open");
        assert_eq!(soon("marker", operator_of(&another).marker()).await.expect("answered"), None, "it is open");
        let back = client(context, "back").await.expect("the namespace must accept clients again");
        acquire_and_release(&mutex(&back, "a")).await;
    }

    "MIGRATE-GATE" =>
    /// a namespace is not retired while a client is connected, also an idle one: the call names it, and this client and
    /// new ones work as before
    async fn migrate_gate_waits_for_a_forgotten_client(context) {
        let idle = client(context, "the-forgotten-one").await.expect("connected");
        let operator = operator(context).await;
        let error = fails(soon("retire", operator_of(&operator).retire(ELSEWHERE)).await, ErrorKind::Conflict, "a client");
        let text = error.to_string();
        assert!(text.contains("\"the-forgotten-one\"") && !text.contains("an-operator"), "{text}");
        acquire_and_release(&mutex(&idle, "a")).await;
        let another = client(context, "another").await.expect("nothing has changed");
        for client in [idle, another] {
            close(&client).await;
        }
        soon("retire", operator_of(&operator).retire(ELSEWHERE)).await.expect("they are gone");
        assert_sent_on(context, brief_client(context, "too-late").await);
    }

    "MIGRATE-GATE" =>
    /// a namespace is retired while clients connect all the time: after each retirement, no client is connected
    async fn migrate_gate_among_clients_that_come_and_go(context) {
        let first = client(context, "first").await.expect("the first");
        let operator = operator(context).await;
        let is_retired = AtomicBool::new(false);
        // The marker may be taken back. After it, clients are refused.
        let is_in_use = |_| async { !is_retired.load(Ordering::Acquire) };
        let comes = |label| come_and_go(context, label, &is_retired, is_in_use);
        let retires = async {
            close(&first).await;
            tokio::time::sleep(PAUSE / 2).await;
            while let Err(error) = operator_of(&operator).retire(ELSEWHERE).await {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                tokio::time::sleep(PAUSE).await;
            }
            is_retired.store(true, Ordering::Release);
        };
        within(MANY_COME, "retired", join3(retires, comes("one"), comes("two"))).await;
        until("the refused clients are gone", || async { listed(&operator).await.len() == 1 }).await;
    }

    "MIGRATE-GATE" =>
    /// a namespace that is the target of a move refuses plain clients until the move is done, and names the URL to use;
    /// a mark that this build cannot read keeps it out
    async fn migrate_gate_keeps_the_new_side_shut_before_its_move(context) {
        let operator = operator(context).await;
        let url = ELSEWHERE.replace('?', "%3F").replace('=', "%3D");
        add_to_stamp(context, &operator, &format!("&moving=arrives&move=to+here&url={url}")).await;
        assert_sent_on(context, brief_client(context, "too-early").await);
        let error = fails(soon("reopen", operator_of(&operator).reopen()).await, ErrorKind::Conflict, "a move has marked it");
        assert!(error.to_string().contains("&to=<this one>&move=to%20here"), "{error}");
    }

    "MIGRATE-GATE" =>
    /// data of a later version about a move, next to the stamp, keeps this version out
    async fn migrate_gate_of_a_later_version_keeps_this_one_out(context) {
        let operator = operator(context).await;
        add_to_stamp(context, &operator, "&moving=sideways").await;
        let error = fails(brief_client(context, "too-old").await, ErrorKind::Misconfigured, "unknown");
        assert!(error.to_string().contains("\"sideways\""), "{error}");
    }

    "MIGRATE-GATE" =>
    /// a client that was cut off while its namespace was retired gets the new URL when it reconnects, and joins no
    /// queue before
    async fn migrate_gate_after_a_client_was_cut_off(context) {
        let (operator, away) = (operator(context).await, brief_build(context, LAYOUT, "away").await.expect("connected"));
        context.cut_off(&away).await;
        let bound = context.recovery(&away) + CLEAN_UP;
        until_within(bound, "it is gone", || async { listed(&operator).await.len() == 1 }).await;
        soon("retire", operator_of(&operator).retire(ELSEWHERE)).await.expect("nobody is there");
        away.link.heal();
        let lock = away.coordinator.mutex("a").expect("a good key");
        let acquired = within(bound, "an answer", lock.acquire()).await;
        says(&fails(acquired, ErrorKind::Misconfigured, "the namespace has moved"), &[ELSEWHERE]);
        let queue = operator.coordinator.mutex("a").expect("a good key");
        assert_eq!(soon("the queue", queue.queue().first(10)).await.expect("listed"), []);
    }
}
