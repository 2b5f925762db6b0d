//! KEY-: one address space.

use latchwork_core::contracts::Joined;
use latchwork_core::decide::Claim;
use latchwork_core::{Address, ErrorKind, Hold, Kind};

use crate::case::cases;
use crate::kit::{acquire, join, queue_of, soon, try_acquire};

cases! {
    "KEY-OPAQUE" adapted =>
    /// keys with separators, braces, dots, blanks and other scripts are held side by side
    async fn key_opaque_odd_keys_are_all_different(scene) {
        let client = scene.client().await;
        let long = "k".repeat(255);
        let keys = [
            "a", "a/b", "a_b", "a-b", "a.b", "a%2Fb", "a%2fb", "A", ".", "..", "{a}", "_a_", "{a", "}x{", "a b", " a", "a ", "ключ",
            "КЛЮЧ", "a:b", "a\n", "\u{1F512}", &long,
        ];
        let mut guards = Vec::new();
        for key in keys {
            let guard = try_acquire(&scene.mutex(&client, key)).await;
            guards.push(guard.unwrap_or_else(|| panic!("{key:?} met another key")));
        }
        for (guard, key) in guards.iter().zip(keys) {
            assert_eq!(guard.key(), key);
            assert!(try_acquire(&scene.mutex(&client, key)).await.is_none(), "{key:?} is held");
        }
    }

    "KEY-OPAQUE" =>
    /// an empty key and one of 256 bytes are refused by name, without I/O
    async fn key_opaque_bad_keys_are_refused(scene) {
        let client = scene.client().await;
        client.link.cut();
        for key in [String::new(), "k".repeat(256), "ü".repeat(128)] {
            let error = client.coordinator.mutex(key.as_str()).expect_err("refused");
            assert_eq!(error.argument(), Some("key"), "{error}");
        }
        client.link.heal();
    }

    "KEY-KINDS" =>
    /// kinds never meet: a mutex and a semaphore of one key are two things
    async fn key_kinds_never_meet(scene) {
        let client = scene.client().await;
        let mut nodes = Vec::new();
        for (kind, claim) in [
            (Kind::Mutex, Claim::Exclusive),
            (Kind::RwLock, Claim::Exclusive),
            (Kind::Semaphore, Claim::Permits(2)),
            (Kind::Election, Claim::Exclusive),
        ] {
            match join(&client, &queue_of(scene, kind, "a"), claim).await {
                Joined::Admitted(node) => nodes.push(node),
                other => panic!("{kind:?} met another kind: {other:?}"),
            }
        }
        for node in nodes {
            node.leave().await.expect("left");
        }
    }

    "KEY-KINDS" =>
    /// namespaces never meet: one key in two namespaces is two things
    async fn key_kinds_namespaces_never_meet(scene) {
        let mut config = scene.config(crate::kit::LONG_TTL);
        let one = scene.client_with(&config).await;
        config.namespace.push_str("-2");
        let other = scene.client_with(&config).await;
        let first = acquire(&scene.mutex(&one, "a")).await;
        let second = try_acquire(&scene.mutex(&other, "a")).await.expect("another namespace");
        first.release().await.expect("released");
        second.release().await.expect("released");
        other.coordinator.close().await.expect("closed");
    }

    "KEY-EXACT" =>
    /// an exact address is one thing for clients of different namespaces, and refused where it cannot be
    async fn key_exact_is_shared_across_namespaces(scene) {
        let mut config = scene.config(crate::kit::LONG_TTL);
        let one = scene.client_with(&config).await;
        config.namespace.push_str("-2");
        let other = scene.client_with(&config).await;
        let name = scene.stage.exact_name();
        let (mine, theirs) = (one.coordinator.mutex(Address::exact(&name)), other.coordinator.mutex(Address::exact(&name)));
        let (mine, theirs) = (mine.expect("a good name"), theirs.expect("a good name"));
        if !one.coordinator.capabilities().exact_addresses {
            let error = soon("acquire", mine.acquire()).await.expect_err("refused");
            assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
            return;
        }
        let guard = acquire(&mine.clone().into()).await;
        assert!(try_acquire(&theirs.clone().into()).await.is_none(), "it is one lock");
        guard.release().await.expect("released");
        let guard = acquire(&theirs.clone().into()).await;
        guard.release().await.expect("released");
        other.coordinator.close().await.expect("closed");
    }
}
