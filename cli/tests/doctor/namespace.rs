use super::{examined, finds, names};
use crate::common::{Fixture, program, ran};

#[tokio::test]
async fn a_retired_namespace_is_named_with_the_url_to_use_and_the_server_is_examined_all_the_same() {
    let fixture = Fixture::new().await;
    let operator = fixture.operator().await;
    operator.retire("redis://the-new-one").await.expect("no client is connected");
    let url = fixture.url.as_str();
    names(url, "\\\"latchwork\\\": it is retired: clients are sent to \\\"redis://the-new-one\\\"").await;
    let (_, findings) = examined(url).await;
    let has =
        |level: &str, words: &str| findings.iter().any(|(of, said)| of == level && said.contains(words));
    assert!(has("good", "answers an operator") && has("good", "2 connected"), "{findings:#?}");
    assert!(has("good", "\"server\"") && has("note", "no client can acquire"), "{findings:#?}");
    assert_eq!(findings.iter().filter(|(level, _)| level == "fault").count(), 1, "{findings:#?}");

    assert!(operator.reopen().await.expect("answered"));
    operator.coordinator().close().await.expect("a close");
    let findings = finds(url, &[]).await;
    assert!(!findings.iter().any(|(_, said)| said.contains("\"namespace\"")), "{findings:#?}");
}

/// A client of a move has no settings of the outer URL.
#[tokio::test]
async fn a_move_is_examined_side_by_side() {
    let url = "moving:?from=redis://app:secret@a/2&to=redis://b&move=m";
    let (code, _, said) = ran(program("", ["doctor", url])).await;
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("by its own URL: redis://app@a/2 and redis://b"), "{said}");
}

/// The refusal is not a marker, so it also concerns an operator.
#[tokio::test]
async fn refusal_without_a_marker_is_reported_as_before() {
    let fixture = Fixture::new().await;
    let url = fixture.url.replace("redis://", "redis-cluster://");
    names(&format!("{url}&min_replicas=7"), "Redis Cluster").await;
}
