use std::time::Duration;

use latchwork_core::{Error, ErrorKind};
use redis::Cmd;
use redis::aio::MultiplexedConnection;

use crate::error::{Answer, Failure, from_redis};

pub(super) fn wait_for(replicas: u32, wait: Duration) -> Cmd {
    let mut command = redis::cmd("WAIT");
    command.arg(replicas).arg(wait.as_millis().max(1));
    command
}

/// For zero replicas the server answers at once.
pub(super) async fn may_wait(connection: &mut MultiplexedConnection) -> Answer<()> {
    let answer = wait_for(0, Duration::ZERO).exec_async(connection).await;
    answer.map_err(|error| wait_forbidden(from_redis(error, false)))
}

pub(super) fn wait_forbidden(failure: Failure) -> Failure {
    match failure.error.kind() {
        ErrorKind::Forbidden => {
            let words = failure.error.to_string();
            Failure { error: Error::forbidden("WAIT (needed by min_replicas)", &words), ..failure }
        }
        _ => failure,
    }
}
