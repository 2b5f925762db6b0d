//! A change of a count by compare-and-set of its cell.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use super::cell_handle::{CellHandle, answered_nonsense};
use super::tries::{Tries, does_not_fit, untold};
use crate::contracts::{CellWrite, CellWritten, VersionedValue};
use crate::decide::count::{Change, Changed, Count, Operation, Pace, Told};
use crate::error::{Error, ErrorKind, Result};
use crate::support::random_part;

pub(super) struct CountAttempt<'a> {
    handle: &'a CellHandle,
    initial: Option<u32>,
    change: Change,
    operation: Operation,
    // The last known cell, or its absence. `None` before the first read.
    seen: Option<Option<VersionedValue>>,
    // `seen` is of an earlier operation: only a write shows whether it is still current.
    is_old: bool,
    // The number of writes of the count when the first request without a reply was sent.
    in_doubt_since: Option<u64>,
    tries: Tries<'a>,
    pace: &'a mut Pace,
}

type CountStep<T = ()> = ControlFlow<Result<Option<i64>>, T>;

/// The longest pause between two tries is this part of a TTL, so that several fit into one operation.
const SHARE: u32 = 4;

/// Pauses for a random part of a window. Returns whether there was a pause.
pub(super) async fn pause(handle: &CellHandle, window: Duration) -> bool {
    if window.is_zero() {
        return false;
    }
    let clock = handle.client.clock();
    clock.sleep_until(clock.now() + random_part(window)).await;
    true
}

fn unless_refused(again: Result<()>) -> CountStep {
    again.map_or_else(|error| Break(Err(error)), Continue)
}

impl<'a> CountAttempt<'a> {
    pub(super) fn new(
        (handle, initial): (&'a CellHandle, Option<u32>),
        change: Change,
        operation: Operation,
        seen: Option<VersionedValue>,
        pace: &'a mut Pace,
    ) -> Self {
        let tries = Tries::of_count(&handle.client);
        let is_old = seen.is_some();
        let seen = seen.map(Some);
        Self { handle, initial, change, operation, seen, is_old, in_doubt_since: None, tries, pace }
    }

    /// Sends requests until the outcome is known. Returns it with the last known cell.
    pub(super) async fn finish(mut self) -> (Result<Option<i64>>, Option<VersionedValue>) {
        loop {
            if let Break(answer) = self.once().await {
                return (answer, self.seen.flatten());
            }
        }
    }

    /// Sends one request: a read if no cell is known, otherwise a write on the last known version.
    async fn once(&mut self) -> CountStep {
        let Some(seen) = self.seen.clone() else { return self.read().await };
        let (count, next) = match self.next(seen.as_ref()) {
            Break(_) if self.is_old => return self.read().await,
            next => next?,
        };
        // The pause or the read may have taken the rest of the time.
        unless_refused(self.tries.again_at_once())?;
        let result = next.result();
        let value: Arc<[u8]> = next.to_string().into_bytes().into();
        let expected = seen.map(|cell| cell.version).into();
        let write = CellWrite { expected, value: Some(Arc::clone(&value)), life: self.handle.life };
        let clock = self.handle.client.clock();
        let sent = clock.now();
        let written = self.handle.write(&write).await;
        let round_trip = clock.now().since(sent);
        match written {
            Ok(CellWritten::Written(version)) => {
                self.pace.written(round_trip);
                self.seen = Some(Some(VersionedValue::new(version, value)));
                Break(Ok(Some(result)))
            }
            Ok(CellWritten::Refused(cell)) => {
                (self.seen, self.is_old) = (Some(cell), false);
                self.refused(&count, round_trip).await
            }
            Ok(CellWritten::Deleted { .. }) => Break(Err(answered_nonsense())),
            Err(error) => self.failed(&count, error).await,
        }
    }

    async fn read(&mut self) -> CountStep {
        match self.handle.read().await {
            Ok(cell) => {
                (self.seen, self.is_old) = (Some(cell), false);
                Continue(())
            }
            Err(error) if error.may_pass() => self.pause(error).await,
            Err(error) => Break(Err(error)),
        }
    }

    /// Returns the count in this cell and the next count, or the final result.
    fn next(&self, seen: Option<&VersionedValue>) -> CountStep<(Count, Count)> {
        let count = match Count::in_cell(seen.map(|cell| &*cell.value), self.initial) {
            Ok(count) => count,
            Err(why) => return Break(Err(self.tries.or_unknown(why.into()))),
        };
        if let Some(since) = self.in_doubt_since {
            match count.told(self.operation, since) {
                Told::Applied(result) => return Break(Ok(Some(result))),
                Told::NotApplied => {}
                Told::Nothing => return Break(Err(untold())),
            }
        }
        match count.changed(self.change, self.operation) {
            Changed::To(next) => Continue((count, next)),
            Changed::Not => Break(Ok(None)),
            Changed::Overflow => Break(Err(does_not_fit())),
        }
    }

    /// Lets other clients take their turns, after a write that met another version.
    async fn refused(&mut self, before: &Count, round_trip: Duration) -> CountStep {
        let cell = self.seen.as_ref().and_then(Option::as_ref);
        if let Ok(now) = Count::in_cell(cell.map(|cell| &*cell.value), self.initial) {
            let others = now.others_since(before, self.operation.writer);
            self.pace.refused(others, round_trip, self.handle.client.lease().ttl() / SHARE);
        }
        if pause(self.handle, self.pace.window()).await {
            (self.seen, self.is_old) = (None, false);
        }
        Continue(())
    }

    async fn failed(&mut self, count: &Count, error: Error) -> CountStep {
        if error.kind() == ErrorKind::OutcomeUnknown {
            self.in_doubt_since.get_or_insert(count.writes());
        }
        self.pause(error).await
    }

    async fn pause(&mut self, error: Error) -> CountStep {
        unless_refused(self.tries.again_after(error).await)
    }
}
