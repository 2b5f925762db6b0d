//! A separate connection for confirmations by replicas. `WAIT` blocks its connection, so on the shared one it
//! would delay renewals. It also covers only the writes of its own connection.

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

/// Writes, and waits until replicas have the writes. A drop closes the connection.
#[derive(Debug)]
pub(crate) struct ConfirmingConnection {
    connection: MultiplexedConnection,
    clock: Clock,
    address: String,
    // The last argument of every script.
    life: String,
    run_id: Option<String>,
}

/// The answers to one burst.
pub(crate) struct Burst {
    /// When the burst was sent.
    pub(crate) sent: Moment,
    /// The answer of each script.
    pub(crate) replies: Vec<Result<Reply>>,
    /// The number of replicas that have all writes of this connection so far.
    pub(crate) replicas: u64,
}

impl ConfirmingConnection {
    /// Connects, logs in as the client does, and checks that a master answers. No answer takes
    /// longer than `bound`.
    pub(crate) async fn dial(settings: &Settings, clock: &Clock, bound: Duration) -> Result<Self> {
        let failed = |failure: Failure| only_unavailable(failure.error);
        let (host, mut connection) = reach(settings, within(bound), bound).await.map_err(failed)?;
        let greeted = handshake_to_confirm(&mut connection, settings).await;
        let run_id = greeted.map_err(|failure| failed(failure.secured_by(&settings.transport)))?;
        let life = life(settings.remember, settings.ttl).to_string();
        Ok(Self { connection, clock: clock.clone(), address: host.to_string(), life, run_id })
    }

    /// The run id of the connection's server, if the server reports it.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    /// Runs scripts, and then waits until `replicas` replicas have the writes of these scripts and of earlier
    /// ones on this connection, for at most `wait`. It sends all as one burst, so no script can come after the
    /// `WAIT`. No answer takes longer than `bound` more.
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
        // If a slot has moved, or is being moved, the caller tries again on its new server.
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

/// A renewal without an answer does no harm, and is repeated: only the confirmation is missing.
fn only_unavailable(error: Error) -> Error {
    error.of_harmless("no answer to a confirmation")
}
