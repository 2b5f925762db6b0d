//! KEY-: one address space.

use latchwork_core::{Claim, ErrorKind, Key, Kind, Limit, Owner};

use super::semaphore::is_conflict;
use crate::actions::{acquire, acquire_and_release, admitted, close, leave_all, release_all, try_acquire};
use crate::bounds::LONG_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::errors::refuses;
use crate::exclusive::Lock;
use crate::testbed::Client;
use crate::waits::soon;

cases! {
    "KEY-OPAQUE" adapted =>
    /// keys with separators, braces, dots, blanks and other scripts are held at the same time
    async fn key_opaque_odd_keys_are_all_different(context) {
        let client = context.client().await;
        let long = "k".repeat(255);
        let keys = [
            "a", "a/b", "a_b", "a-b", "a.b", "a%2Fb", "a%2fb", "A", ".", "..", "{a}", "_a_", "{a", "}x{", "a b", " a", "a ", "ключ",
            "КЛЮЧ", "a:b", "a\n", "\u{1F512}", &long,
        ];
        let mut guards = Vec::new();
        for key in keys {
            let guard = try_acquire(&context.mutex(&client, key)).await;
            guards.push(guard.unwrap_or_else(|| panic!("{key:?} is not separate from another key")));
        }
        for (guard, key) in guards.iter().zip(keys) {
            assert_eq!(guard.key(), key);
            assert!(try_acquire(&context.mutex(&client, key)).await.is_none(), "{key:?} is held");
        }
    }

    "KEY-OPAQUE" =>
    /// an empty key and one of 256 bytes are refused by name, without I/O
    async fn key_opaque_bad_keys_are_refused(context) {
        let client = context.client().await;
        client.link.cut();
        for key in [String::new(), "k".repeat(256), "ü".repeat(128)] {
            refuses(client.coordinator.mutex(key.as_str()), "key");
        }
        client.link.heal();
    }

    "KEY-KINDS" =>
    /// kinds are separate: a mutex and a semaphore of one key do not exclude each other
    async fn key_kinds_never_meet(context) {
        let client = context.client().await;
        let mut nodes = Vec::new();
        for (kind, claim) in [
            (Kind::Mutex, Claim::Exclusive),
            (Kind::RwLock, Claim::Exclusive),
            (Kind::Semaphore, Claim::Permits(2)),
            (Kind::Election, Claim::Exclusive),
        ] {
            nodes.push(admitted(&client, &context.queue_of(kind, "a"), claim).await);
        }
        leave_all(&nodes).await;
    }

    "KEY-KINDS" =>
    /// namespaces are separate: one key in two namespaces is two locks
    async fn key_kinds_namespaces_never_meet(context) {
        let [one, other] = of_two_namespaces(context).await;
        let first = acquire(&context.mutex(&one, "a")).await;
        let second = try_acquire(&context.mutex(&other, "a")).await.expect("another namespace");
        release_all([first, second]).await;
        close(&other).await;
    }

    "KEY-EXACT" =>
    /// clients of different namespaces share an exact address; a backend without such addresses refuses it
    async fn key_exact_is_shared_across_namespaces(context) {
        let [one, other] = of_two_namespaces(context).await;
        let name = context.fixture.exact_name();
        let mutex = |client: &Client| client.coordinator.mutex(Key::exact(&name)).expect("a good name");
        let [mine, theirs] = [&one, &other].map(|client| Lock::Mutex(mutex(client)));
        if !one.coordinator.capabilities().exact_addresses {
            let error = soon("acquire", mine.acquire()).await.expect_err("refused");
            assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
            return;
        }
        let guard = acquire(&mine).await;
        assert!(try_acquire(&theirs).await.is_none(), "it is one lock");
        guard.release().await.expect("released");
        acquire_and_release(&theirs).await;
        close(&other).await;
    }

    "KEY-EXACT" =>
    /// clients of different namespaces share each kind of lock at an exact address
    async fn key_exact_of_every_kind_is_shared(context) {
        let Some([one, other]) = with_exact_addresses(context).await else { return };
        let (one, two) = (&one.coordinator, &other.coordinator);
        let name = context.fixture.exact_name();
        let exact = || Key::exact(&name);
        let [here, there] = [one, two].map(|client| client.rwlock(exact()).expect("a good name"));
        let [reentrant, mutex] = [one, two].map(|client| client.mutex(exact()).expect("a good name"));

        let reader = soon("read", here.read()).await.expect("read");
        assert!(soon("try", there.try_write()).await.expect("answered").is_none(), "a writer was admitted while a reader held");
        let beside = soon("try", there.try_read()).await.expect("answered").expect("readers share it");
        release_all([reader, beside]).await;
        let writer = soon("write", there.write()).await.expect("written");
        assert!(soon("try", here.try_read()).await.expect("answered").is_none(), "a reader was admitted while a writer held");
        let reading = soon("downgrade", writer.downgrade()).await.expect("downgraded");
        soon("try", here.try_read()).await.expect("answered").expect("they read both").release().await.expect("released");
        reading.release().await.expect("released");

        let owner = Owner::new("its owner");
        let held = soon("acquire", reentrant.acquire().by(&owner)).await.expect("acquired");
        assert!(soon("try", mutex.try_acquire()).await.expect("answered").is_none(), "a mutex was acquired while an owner held it");
        held.release().await.expect("released");
        soon("acquire", mutex.acquire()).await.expect("acquired").release().await.expect("released");
        close(&other).await;
    }

    "KEY-EXACT" =>
    /// a semaphore at an exact address has one limit for clients of different namespaces, and a changed limit reaches
    /// both
    async fn key_exact_semaphores_share_a_limit(context) {
        let Some([one, other]) = with_exact_addresses(context).await else { return };
        let name = context.fixture.exact_name();
        let exact = || Key::exact(&name);
        let here = one.coordinator.semaphore(exact(), 1).expect("a good name");
        let permit = soon("acquire", here.acquire(1)).await.expect("acquired");
        let there = |limit| other.coordinator.semaphore(exact(), limit).expect("a good name");
        is_conflict(&there(3), 1, "another limit is stored").await;
        assert!(soon("try", there(1).try_acquire(1)).await.expect("answered").is_none(), "over the limit");
        let follows = other.coordinator.semaphore(exact(), Limit::Stored).expect("a good name");
        assert_eq!(soon("read", follows.stored_limit()).await.expect("read"), Some(1));
        soon("set_limit", here.set_limit(2)).await.expect("set");
        assert_eq!(soon("read", follows.stored_limit()).await.expect("read"), Some(2));
        let beside = soon("acquire", follows.acquire(1)).await.expect("the new limit reaches it");
        assert!(soon("try", follows.try_acquire(1)).await.expect("answered").is_none(), "over the limit");
        release_all([permit, beside]).await;
        close(&other).await;
    }

    "KEY-EXACT" =>
    /// kinds are separate at an exact address too, and so are a semaphore and a mutex with the name of its limit
    async fn key_exact_kinds_never_meet(context) {
        let client = context.client().await;
        if !client.coordinator.capabilities().exact_addresses {
            return;
        }
        let name = context.fixture.exact_name();
        let exact = || Key::exact(&name);
        let coordinator = &client.coordinator;
        let semaphore = coordinator.semaphore(exact(), 2).expect("a good name");
        let permits = soon("acquire", semaphore.acquire(2)).await.expect("acquired");
        let mutex = coordinator.mutex(exact()).expect("a good name");
        let held = soon("acquire a mutex while its semaphore is held", mutex.acquire()).await.expect("acquired");
        let rwlock = coordinator.rwlock(exact()).expect("a good name");
        let writer = soon("write while the mutex and semaphore are held", rwlock.write()).await.expect("acquired");
        assert!(soon("try", semaphore.try_acquire(1)).await.expect("answered").is_none(), "over the limit");
        let limit = format!("{name}-limit");
        let neighbour = coordinator.mutex(Key::exact(&limit)).expect("a good name");
        soon("its neighbour", neighbour.acquire()).await.expect("acquired").release().await.expect("released");
        assert_eq!(soon("read", semaphore.stored_limit()).await.expect("read"), Some(2));
        permits.release().await.expect("released");
        soon("one permit", semaphore.acquire(1)).await.expect("acquired").release().await.expect("released");
        held.release().await.expect("released");
        writer.release().await.expect("released");
    }
}

/// The case closes the second.
pub(super) async fn of_two_namespaces(context: &Context) -> [Client; 2] {
    let mut config = context.config(LONG_TTL);
    let one = context.client_with(&config).await;
    config.namespace.push_str("-2");
    [one, context.client_with(&config).await]
}

/// `None` without exact addresses.
pub(super) async fn with_exact_addresses(context: &Context) -> Option<[Client; 2]> {
    let clients = of_two_namespaces(context).await;
    clients[0].coordinator.capabilities().exact_addresses.then_some(clients)
}
