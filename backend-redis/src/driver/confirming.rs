//! A separate connection for confirmations by replicas, because `WAIT` blocks its connection and covers only
//! its writes (QUEUE-CONFIRM-APART).

use std::time::Duration;

use latchwork_core::{Clock, Error, ErrorKind, Moment, Result};
use redis::Value;
use redis::aio::MultiplexedConnection;

use super::command::{by_hash, reply};
use super::dial::reach;
use super::handshake::handshake_to_confirm;
use super::open::within;
use super::wait_command::{wait_for, wait_forbidden};
use crate::config::Settings;
use crate::error::{Again, Failure, from_redis, timed_out};
use crate::layout::life;
use crate::scripts::{Call, Reply};

#[derive(Debug)]
pub(crate) struct ConfirmingConnection {
    connection: MultiplexedConnection,
    clock: Clock,
    address: String,
    life: String,
    run_id: Option<String>,
}

pub(crate) struct Burst {
    pub(crate) sent: Moment,
    pub(crate) replies: Vec<Result<Reply>>,
    pub(crate) replicas: u64,
}

impl ConfirmingConnection {
    pub(crate) async fn dial(settings: &Settings, clock: &Clock, bound: Duration) -> Result<Self> {
        let failed = |failure: Failure| only_unavailable(failure.error);
        let (host, mut connection) = reach(settings, within(bound), bound).await.map_err(failed)?;
        let greeted = handshake_to_confirm(&mut connection, settings).await;
        let run_id = greeted.map_err(|failure| failed(failure.secured_by(&settings.transport)))?;
        let life = life(settings.remember, settings.ttl).to_string();
        Ok(Self { connection, clock: clock.clone(), address: host.to_string(), life, run_id })
    }

    pub(crate) fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    /// Sends scripts and a `WAIT` as one burst. No answer takes longer than `wait` and `bound`.
    ///
    /// # Errors
    /// The error of the connection, which is unusable then; `Forbidden` naming `WAIT`.
    pub(crate) async fn write_and_wait(
        &mut self,
        calls: &[Call],
        replicas: u32,
        wait: Duration,
        bound: Duration,
    ) -> Result<Burst> {
        let mut burst = redis::pipe();
        for call in calls {
            burst.add_command(by_hash(call, &self.life));
        }
        burst.add_command(wait_for(replicas, wait));
        self.connection.set_response_timeout(wait + bound);
        let sent = self.clock.now();
        let tried = |failure: Failure| {
            let took = self.clock.now().since(sent);
            only_unavailable(failure.error).tried("WAIT", &self.address, took)
        };
        let answer = self.connection.send_packed_commands(&burst, 0, calls.len() + 1).await;
        let mut answers = answer
            .map_err(|error| tried(if error.is_timeout() { timed_out() } else { from_redis(error, true) }))?;
        let said = |value: Value| value.extract_error().map_err(|error| from_redis(error, true));
        let waited = answers.pop().unwrap_or(Value::Nil);
        let replicas = match said(waited).map_err(wait_forbidden).map_err(tried)? {
            Value::Int(replicas) => u64::try_from(replicas).unwrap_or(0),
            _ => 0,
        };
        // The caller tries again on the slot's new server.
        let only_said = |value| {
            said(value).map(reply).map_err(|failure| match failure.again {
                Some(Again::Moved(_) | Again::Ask(_)) => {
                    Error::new(ErrorKind::Unavailable, "the queue has moved or is moving to another server")
                        .because(failure.error)
                }
                _ => only_unavailable(failure.error),
            })
        };
        let replies = answers.into_iter().map(only_said).collect();
        Ok(Burst { sent, replies, replicas })
    }
}

/// Only the confirmation is missing.
fn only_unavailable(error: Error) -> Error {
    error.of_harmless("no answer to a confirmation")
}
