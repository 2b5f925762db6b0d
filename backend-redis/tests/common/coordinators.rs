//! Coordinators at a URL, and what the errors of those that were refused say.

use latchwork_core::{Config, Coordinator, Error, connect};

use super::soon;

pub async fn at(url: &str) -> Result<Coordinator, Error> {
    let config = Config::from_url(url).expect("a good URL");
    soon(connect(&[latchwork_redis::connector()], &config)).await
}

pub async fn refused(url: &str) -> Error {
    at(url).await.expect_err("connected")
}

/// Checks the text of an error, and prints it.
pub fn said(error: &Error, words: &[&str]) {
    let text = error.to_string();
    println!("{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is not in: {text}"));
}
