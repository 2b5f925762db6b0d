//! A cell with a count, changed at most once by each operation.
//! [`decide::count`](crate::decide::count) has the protocol and the argument.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::cell_handle::CellHandle;
use crate::clock::Moment;
use crate::contracts::{Cell, CellWrite, CellWritten, Expected, NodeId};
use crate::decide::count::{Change, Changed, Count, NotACount, Operation, Told};
use crate::error::{Error, ErrorKind, Result};
use crate::support::Backoff;

/// The count of one recipe's handle and its clones, which are one writer.
#[derive(Clone)]
pub(super) struct CountCell {
    pub(super) handle: CellHandle,
    // What the count begins with, where its users agree on that.
    initial: Option<u32>,
    writer: Arc<Mutex<Writer>>,
}

struct Writer {
    id: u64,
    // The number of its last operation.
    last: u64,
    // The cell as it was seen last: the next operation expects it, and needs one round trip if
    // nobody else has written since.
    seen: Option<Cell>,
}

impl CountCell {
    pub(super) fn new(handle: CellHandle, initial: Option<u32>) -> Self {
        let writer = Writer { id: NodeId::random().as_u64(), last: 0, seen: None };
        Self { handle, initial, writer: Arc::new(Mutex::new(writer)) }
    }

    /// The count as it is on the server.
    pub(super) async fn read(&self) -> Result<Count> {
        self.count(self.handle.read().await?.as_ref())
    }

    /// The count in a cell, or the one that it begins with.
    ///
    /// # Errors
    /// `Conflict` when it is another thing, or began with another number.
    pub(super) fn count(&self, cell: Option<&Cell>) -> Result<Count> {
        let Some(cell) = cell else {
            return Ok(self.initial.map_or_else(Count::default, Count::beginning_with));
        };
        let text = std::str::from_utf8(&cell.value).map_err(|_| NotACount);
        let conflict = |why| Err(Error::new(ErrorKind::Conflict, why));
        match text.and_then(str::parse::<Count>) {
            Ok(count) if count.initial() == self.initial => Ok(count),
            Ok(count) => match (count.initial(), self.initial) {
                (Some(stored), Some(asked)) => conflict(format!("it began with {stored}, not with {asked}")),
                _ => conflict("something else than a count of this kind is stored".to_owned()),
            },
            Err(NotACount) => conflict("something else than a count is stored".to_owned()),
        }
    }

    /// Changes the count, at most once, and answers its value then; `None` if nothing was to be
    /// changed. Retries until the outcome is known, for one TTL.
    ///
    /// # Errors
    /// `Unknown` when it may have been applied; `Unavailable` when it was surely not; `Timeout` when
    /// others changed the count before each try; `InvalidArgument` naming `number` when the sum does
    /// not fit.
    ///
    /// # Cancel safety
    /// A dropped change may or may not be applied, once.
    pub(super) async fn change(&self, change: Change) -> Result<Option<i64>> {
        let mut writer = self.writer.lock().await;
        writer.last += 1;
        let operation = Operation { writer: writer.id, number: writer.last };
        let mut attempt = Attempt::new(self, change, operation, writer.seen.take());
        let answer = loop {
            match attempt.once().await {
                Step::Done(answer) => break answer,
                Step::Again => {}
            }
        };
        writer.seen = attempt.seen.flatten();
        answer
    }

    /// Deletes the count.
    pub(super) async fn delete(&self) -> Result<bool> {
        let mut writer = self.writer.lock().await;
        writer.seen = None;
        self.handle.delete().await
    }
}

/// One operation, until its outcome is known.
struct Attempt<'a> {
    count: &'a CountCell,
    change: Change,
    operation: Operation,
    // The cell as it was seen last, or that there was none; `None` before it was read.
    seen: Option<Option<Cell>>,
    // It was seen by an operation before this one: only a write tells whether it is still so.
    is_old: bool,
    // How often the count had been written when the first request was sent whose reply was lost.
    in_doubt_since: Option<u64>,
    until: Moment,
    pauses: Backoff,
}

enum Step {
    Done(Result<Option<i64>>),
    Again,
}

impl<'a> Attempt<'a> {
    fn new(count: &'a CountCell, change: Change, operation: Operation, seen: Option<Cell>) -> Self {
        let lease = count.handle.client.lease();
        let until = lease.clock().now() + lease.ttl();
        let pauses = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        let is_old = seen.is_some();
        Self { count, change, operation, seen: seen.map(Some), is_old, in_doubt_since: None, until, pauses }
    }

    /// Sends one request: a read if nothing was seen yet, else a write on what was seen last.
    async fn once(&mut self) -> Step {
        let Some(seen) = self.seen.clone() else { return self.read().await };
        let (count, next) = match self.next(seen.as_ref()) {
            Ok(next) => next,
            Err(_) if self.is_old => return self.read().await,
            Err(done) => return Step::Done(done),
        };
        let result = next.value();
        let value: Arc<[u8]> = next.to_string().into_bytes().into();
        let expected = seen.map_or(Expected::Absent, |cell| Expected::Version(cell.version));
        let write = CellWrite { expected, value: Some(Arc::clone(&value)), life: self.count.handle.life };
        match self.count.handle.write(&write).await {
            Ok(CellWritten::Written(version)) => {
                self.seen = Some(Some(Cell { version, value }));
                Step::Done(Ok(Some(result)))
            }
            Ok(CellWritten::Refused(cell)) => {
                (self.seen, self.is_old) = (Some(cell), false);
                // At once: whoever pauses after a collision starves beside one who does not collide.
                if self.count.handle.client.clock().now() > self.until {
                    let why = "others changed the count before each try";
                    return Step::Done(Err(self.or_unknown(Error::new(ErrorKind::Timeout, why))));
                }
                Step::Again
            }
            Ok(CellWritten::Deleted { .. }) => {
                let why = "the backend answered what was not asked";
                Step::Done(Err(Error::new(ErrorKind::Misconfigured, why)))
            }
            Err(error) => self.failed(&count, error).await,
        }
    }

    async fn read(&mut self) -> Step {
        match self.count.handle.read().await {
            Ok(cell) => {
                (self.seen, self.is_old) = (Some(cell), false);
                Step::Again
            }
            Err(error) if error.is_retryable() => self.pause(|| error).await,
            Err(error) => Step::Done(Err(error)),
        }
    }

    /// The count in this cell, and as it is to be; or the answer.
    fn next(&self, seen: Option<&Cell>) -> std::result::Result<(Count, Count), Result<Option<i64>>> {
        let count = self.count.count(seen).map_err(|error| Err(self.or_unknown(error)))?;
        if let Some(since) = self.in_doubt_since {
            match count.told(self.operation, since) {
                Told::Applied(result) => return Err(Ok(Some(result))),
                Told::NotApplied => {}
                Told::Nothing => {
                    let why = "others have written too often since to tell whether it was applied";
                    return Err(Err(Error::new(ErrorKind::Unknown, why)));
                }
            }
        }
        match count.changed(self.change, self.operation) {
            Changed::To(next) => Ok((count, next)),
            Changed::Not => Err(Ok(None)),
            Changed::Overflow => Err(Err(Error::invalid("number", "the sum does not fit into an i64"))),
        }
    }

    async fn failed(&mut self, count: &Count, error: Error) -> Step {
        match error.kind() {
            ErrorKind::Unknown => drop(self.in_doubt_since.get_or_insert(count.writes())),
            ErrorKind::Unavailable => {}
            _ => return Step::Done(Err(self.or_unknown(error))),
        }
        self.pause(|| error).await
    }

    /// Pauses before the next try; after the deadline, this error is the answer.
    async fn pause(&mut self, error: impl FnOnce() -> Error) -> Step {
        let clock = self.count.handle.client.clock();
        let next = clock.now() + self.pauses.next();
        if next > self.until {
            return Step::Done(Err(self.or_unknown(error())));
        }
        clock.sleep_until(next).await;
        Step::Again
    }

    /// The error, unless an earlier request may have been carried out.
    fn or_unknown(&self, error: Error) -> Error {
        match (self.in_doubt_since, error.kind()) {
            (None, _) | (_, ErrorKind::Unknown) => error,
            (Some(_), _) => {
                let why = "a request whose reply was lost may have been carried out";
                Error::new(ErrorKind::Unknown, why).because(error)
            }
        }
    }
}
