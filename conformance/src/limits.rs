//! Stored texts that are not a limit of a semaphore.

use crate::actions::join_of;
use crate::waits::soon;
use latchwork_core::backend::{Backend, EntryPage, ExpectedLimit, Join, Joined, Patience};
use latchwork_core::{Address, Claim, Error, ErrorKind, Limit};

/// The place of a stored limit, without the library.
pub trait StoredLimit {
    /// Writes a text.
    fn write(&mut self, text: &str) -> impl Future<Output = ()>;

    /// Reads the text.
    fn read(&mut self) -> impl Future<Output = String>;
}

/// Each with the text in the error.
fn none() -> Vec<(String, String)> {
    let as_it_is = ["abc", "", "-5", "+5", "0", "0x5", "5 ", "1e3", "inf", "nan", "5000000000"];
    let mut none: Vec<_> = as_it_is.into_iter().map(|text| (text.to_owned(), text.to_owned())).collect();
    none.push(("\u{1b}[2J".to_owned(), "\\u{1b}[2J".to_owned()));
    none.push(("x".repeat(70), "x".repeat(64) + "…"));
    none
}

/// Returns an attempt to acquire one permit.
pub fn permit(queue: &Address, limit: Limit, patience: Patience) -> Join {
    Join { limit, patience, ..join_of(queue, Claim::Permits(1)) }
}

/// Asserts that an error shows the stored text and the fix.
pub fn shows_bad_limit(error: &Error, shown: &str) {
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("\"{shown}\"")) && text.contains("set_limit"), "{shown:?}: {text}");
}

/// Asserts that each bad text is a `Conflict` and stays, that no node is left, and that `set_limit` fixes it.
pub async fn bad_limits_are_reported_and_stay(
    backend: &dyn Backend,
    queue: &Address,
    place: &mut impl StoredLimit,
) {
    for (stored, shown) in none() {
        place.write(&stored).await;
        for limit in [Limit::Exactly(3), Limit::UnlessStored(3), Limit::Stored] {
            for patience in [Patience::Wait, Patience::Try] {
                let refused = backend.join(&permit(queue, limit, patience)).await;
                shows_bad_limit(&refused.expect_err("no limit is stored"), &shown);
            }
        }
        shows_bad_limit(&backend.limit(queue).await.expect_err("no limit is stored"), &shown);
        assert_eq!(place.read().await, stored, "it stays");
    }
    let listed = backend.list(queue, EntryPage::new(0, 9)).await.expect("answered");
    assert!(listed.is_empty(), "a refused join left its node: {listed:?}");
    backend.set_limit(queue, ExpectedLimit::Any, 2).await.expect("set");
    match backend.join(&permit(queue, Limit::Exactly(2), Patience::Wait)).await {
        Ok(Joined::Admitted(node)) => _ = node.leave().await.expect("left"),
        other => panic!("not admitted: {other:?}"),
    }
}

/// Asserts that a bad text ends a wait at once, and no hold.
pub async fn a_bad_limit_ends_a_wait_and_no_hold(
    backend: &dyn Backend,
    queue: &Address,
    place: &mut impl StoredLimit,
) {
    let one = || permit(queue, Limit::Exactly(1), Patience::Wait);
    let Ok(Joined::Admitted(held)) = backend.join(&one()).await else { panic!("it is free") };
    let Ok(Joined::Waiting(waiter)) = backend.join(&one()).await else { panic!("it is taken") };
    let (ended, ()) = tokio::join!(biased; soon("the end", waiter.admitted()), place.write("nan"));
    shows_bad_limit(&ended.expect_err("no limit is stored"), "nan");
    assert_eq!(held.state().lost(), None);
    for node in [waiter, held] {
        node.leave().await.expect("left");
    }
}
