//! A stream as an iterator.

use std::fmt;
use std::iter::FusedIterator;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};

use super::home::Home;
use crate::Result;

/// The answers of a watch or a listing, one by one; `next` waits for the next one. It ends after an
/// error, which may be `InAsyncCode`.
#[must_use = "nothing is asked until it is iterated"]
pub struct Answers<T> {
    stream: Option<BoxStream<'static, Result<T>>>,
    home: Home,
}

impl<T> Answers<T> {
    pub(super) fn of(stream: impl Stream<Item = Result<T>> + Send + 'static, home: &Home) -> Self {
        Self { stream: Some(stream.boxed()), home: home.clone() }
    }
}

impl<T> Iterator for Answers<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let stream = self.stream.as_mut()?;
        let answer = self.home.run(async { stream.next().await.transpose() });
        if !matches!(answer, Ok(Some(_))) {
            self.stream = None;
        }
        answer.transpose()
    }
}

impl<T> FusedIterator for Answers<T> {}

impl<T> fmt::Debug for Answers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("ended", &self.stream.is_none()).finish_non_exhaustive()
    }
}
