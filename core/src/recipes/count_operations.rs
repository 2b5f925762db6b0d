//! The operations of a count's writer: a request (`count_request`) if the server can change a count,
//! otherwise a compare-and-set of the cell (`count_attempt`).

use std::sync::Arc;

use super::cell_handle::CellHandle;
use super::count_attempt::{CountAttempt, pause};
use super::count_request;
use crate::count_writer::{Answer, CountBatch, CountTerms, CountWriter};
use crate::decide::count::request::CountRequest;
use crate::decide::count::{Change, Operation, shares};
use crate::error::Result;

/// Serves the waiting tasks of a client, until no task waits.
pub(super) async fn serve(writer: Arc<CountWriter>, handle: CellHandle) {
    loop {
        if !writer.desk.look(|waiting| waiting.is_empty()) {
            // Changes that arrive during the pause are added up too.
            let window = writer.known.lock().pace.window();
            if pause(&handle, window).await {
                writer.known.lock().seen = None;
            }
        }
        match writer.desk.look(CountBatch::next) {
            None => return,
            Some(CountBatch::Changes(terms, all, changes, answers)) => {
                let handle = CellHandle { life: terms.life, ..handle.clone() };
                let operations = Operations { writer: &writer, handle, terms };
                operations.serve(all, &changes, answers).await;
            }
            Some(CountBatch::Deletion(answer)) => {
                {
                    let mut known = writer.known.lock();
                    (known.seen, known.writes) = (None, None);
                }
                let _ = answer.send(handle.delete().await);
            }
        }
    }
}

struct Operations<'a> {
    writer: &'a CountWriter,
    handle: CellHandle,
    terms: CountTerms,
}

impl Operations<'_> {
    /// Makes these changes as one operation, `all`, and gives each task its share of the result.
    async fn serve(&self, all: Change, changes: &[Change], answers: Vec<Answer<Option<i64>>>) {
        match self.make(all).await {
            // The sum does not fit, but the first of the changes may.
            Err(error) if error.argument().is_some() && changes.len() > 1 => {
                for (change, answer) in changes.iter().zip(answers) {
                    let _ = answer.send(self.make(*change).await);
                }
            }
            Ok(Some(result)) => {
                for (share, answer) in shares(changes, result).into_iter().zip(answers) {
                    let _ = answer.send(Ok(Some(share)));
                }
            }
            made => answers.into_iter().for_each(|answer| drop(answer.send(made.clone()))),
        }
    }

    async fn make(&self, change: Change) -> Result<Option<i64>> {
        let Self { writer, handle, terms } = self;
        let (number, since, mut pace) = {
            let mut known = writer.known.lock();
            // By two: a refusal may be recorded with the next number.
            known.last += 2;
            (known.last, known.writes, known.pace)
        };
        let operation = Operation { writer: writer.id, number };
        let request = CountRequest { change, operation, initial: terms.initial, since, in_doubt: false };
        let mut writes = since;
        if let Some(answer) = count_request::natively(handle, request, &mut writes).await {
            writer.known.lock().writes = writes;
            return answer;
        }
        let seen = writer.known.lock().seen.take();
        let attempt = CountAttempt::new((handle, terms.initial), change, operation, seen, &mut pace);
        let (answer, seen) = attempt.finish().await;
        let mut known = writer.known.lock();
        (known.seen, known.pace) = (seen, pace);
        answer
    }
}
