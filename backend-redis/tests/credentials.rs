use std::time::Duration;

use crate::common::coordinators::{said, uses};
use crate::common::{operated, own, soon};
use latchwork_conformance::errors::fails;
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::redis_acl_testbed;
use latchwork_conformance::vault::Vault;
use latchwork_core::{Config, Coordinator, ErrorKind, Eviction, Move, MoveConfig, Result, connect};

async fn at(config: &Config) -> Result<Coordinator> {
    connect(&[latchwork_redis::connector()], config).await
}

#[tokio::test]
async fn a_password_that_is_changed_under_way_is_healed_at_the_next_dial() {
    let (server, mut operator) = operated().await;
    operator.tell("ACL SETUSER app on >first ~latchwork:* &latchwork:* +@all").await;
    let vault = Vault::new("first");
    let url = |login: &str| {
        Config::from_url(&format!("redis://{login}{}?ttl=30s&request_timeout=1s", server.addr())).unwrap()
    };
    let healed = at(&url("").with_credentials(vault.clone())).await.unwrap();
    let fixed = at(&url("app:first@")).await.unwrap();
    let hold = healed.mutex("a").unwrap().acquire().await.unwrap();
    assert_eq!(vault.asked(), 1);

    operator.tell("ACL SETUSER app resetpass >second").await;
    vault.change("second");
    assert_eq!(operator.say::<u64>("CLIENT KILL USER app").await, 2);
    uses(&healed, "b").await;
    hold.release().await.unwrap();
    assert!(vault.asked() > 1);
    let answer = fixed.mutex("c").unwrap().acquire().within(Duration::from_secs(3)).await;
    let error = fails(answer, ErrorKind::Unavailable, "the password has changed");
    said(&error, &["log in"]);
    assert!(!error.to_string().contains("first"), "{error}");
    healed.close().await.unwrap();
}

async fn work(config: &Config) -> Result<Eviction> {
    let (a, b) = (at(config).await?, at(config).await?);
    let mutex = a.mutex("a")?;
    let hold = mutex.acquire().await?;
    let waiting = tokio::spawn(b.mutex("a")?.acquire());
    while mutex.queue().first(9).await?.len() < 2 {}
    hold.release().await?;
    soon(waiting).await.expect("it did not panic")?.release().await?;
    a.semaphore("a", 2)?.acquire(1).await?.release().await?;
    a.counter("a")?.add(1).await?;
    let (value, hold) = (a.shared_value("a")?, mutex.acquire().await?);
    let mut watch = b.shared_value("a")?.watch().await?;
    assert!(soon(watch.changed()).await?.is_none());
    value.write_while(&hold, "x").await?;
    assert_eq!(*soon(watch.changed()).await?.expect("written").value, *b"x");
    assert!(value.delete().await?);
    hold.release().await?;
    let eviction = a.capabilities().eviction;
    a.close().await?;
    b.close().await?;
    Ok(eviction)
}

fn documented() -> Vec<String> {
    let page = include_str!("../src/lib.rs");
    let (_, rest) = page.split_once("This ACL is enough:\n//! `").expect("the page has it");
    let (rules, _) = rest.split_once('`').expect("it ends");
    rules.split(' ').map(str::to_owned).collect()
}

/// The topology `auth` plays the suite with the guide's command.
#[test]
fn the_guide_names_the_rights_of_the_page() {
    let rules = documented().join(" ");
    for guide in [include_str!("../../src/guide/trust.md"), include_str!("../../src/guide/errors.md")] {
        assert!(guide.contains(&rules), "a page lacks the rules: {rules}");
    }
    // See `cluster_mistakes_give_the_errors_in_the_guide`.
    for page in [include_str!("../src/lib.rs"), include_str!("../../src/guide/trust.md")] {
        assert!(page.contains("`+cluster|slots`"), "a page lacks the right for clusters");
    }
}

#[tokio::test]
async fn the_documented_acl_is_enough_and_each_of_its_parts_is_needed() {
    let (server, mut operator) = operated().await;
    let rules = documented();
    assert!(rules.len() > 5 && rules.iter().any(|rule| rule == "-@dangerous"), "{rules:?}");
    let places = ["~latchwork:*", "&latchwork:*"];
    let parts: Vec<_> = rules.iter().map(String::as_str).chain(places).collect();
    let config = Config::from_url(&format!("redis://app:word@{}", server.addr())).unwrap();
    let mut with = async |parts: &[&str]| {
        let rules = parts.join(" ");
        operator.tell(&format!("ACL SETUSER app reset on >word {rules}")).await;
        work(&config).await
    };
    assert_eq!(with(&parts).await.expect("the documented rights are enough"), Eviction::Never);
    // This rule grants nothing.
    for part in parts.iter().filter(|part| **part != "-@dangerous") {
        let others: Vec<_> = parts.iter().copied().filter(|other| other != part).collect();
        match with(&others).await {
            Ok(eviction) => assert_eq!((*part, eviction), ("+info", Eviction::Unknown)),
            Err(error) => assert!(error.kind() == ErrorKind::Forbidden, "{part}: {error}"),
        }
    }
}

#[tokio::test]
async fn missing_operator_right_is_reported_with_its_side() {
    let (server, mut operator) = operated().await;
    let side = |namespace: &str| {
        let url = format!("redis://app:word@{}?namespace={namespace}", server.addr());
        Config::from_url(&url).expect("a good URL")
    };
    let sides = MoveConfig::new(side("from"), side("to"), "m");
    let rules = documented();
    let places = ["~from:*", "&from:*", "~to:*", "&to:*"];
    let parts: Vec<_> = rules.iter().map(String::as_str).chain(places).collect();
    let mut with = async |without: &str, denied: &str| {
        let rules: Vec<_> = parts.iter().copied().filter(|part| *part != without).chain([denied]).collect();
        operator.tell(format!("ACL SETUSER app reset on >word {}", rules.join(" ")).trim_end()).await;
        let the_move = Move::connect(&[latchwork_redis::connector()], &sides).await?;
        let made = async {
            the_move.plan().await?;
            let service = connect(&[latchwork_redis::connector()], &Config::of_move(sides.clone())).await?;
            the_move.run(|_| {}).await?;
            service.close().await?;
            the_move.finish().await
        };
        let (made, closed) = (made.await, the_move.close().await);
        made.and(closed)
    };
    for (without, denied, side, names) in [
        ("~to:*", "", "new", "keys"),
        ("~from:*", "", "old", "keys"),
        ("+@scripting", "", "old", "script"),
        ("", "-scan", "old", "scan"),
    ] {
        let error = with(without, denied).await.expect_err("a right is missing");
        let (said, lacks) = (format!("{error}").to_lowercase(), format!("{without}{denied}"));
        assert!(error.kind() == ErrorKind::Forbidden, "{lacks}: {said}");
        assert!(said.contains(&format!("on the {side} side of the move")), "{lacks}: {said}");
        assert!(said.contains(names), "{lacks}: {said}");
    }
    with("", "").await.expect("the rights are enough");
}

/// The control of the topology `auth`.
#[tokio::test]
async fn a_testbed_of_fewer_rights_has_no_clients() {
    for (rights, enough) in [(documented().join(" "), true), ("+@all -@scripting".to_owned(), false)] {
        let command = format!("ACL SETUSER app on >word ~app:* &app:* {rights}");
        let testbed = redis_acl_testbed(own(&[]).await, &command).await.unwrap();
        let fixture = testbed.fixture().await.unwrap();
        match fixture.client(&fixture.config()).await {
            Ok(client) => client.coordinator.close().await.map(|()| assert!(enough, "{rights}")).unwrap(),
            Err(error) => {
                assert!(!enough && error.kind() == ErrorKind::Forbidden, "{rights}: {error}");
            }
        }
    }
}
