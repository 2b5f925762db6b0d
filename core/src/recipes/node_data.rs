//! The data of a node: a leader's or a member's.

use std::sync::Arc;

use super::cell_handle::check_bytes;
use super::hold::Hold;
use crate::contracts::MAX_LABEL_BYTES;
use crate::error::{Error, Result};
use crate::support::{Backoff, Pauses};

/// Checks the data of a node.
///
/// # Errors
/// `InvalidArgument` (`data`): the data is too long.
pub(super) fn check_data(data: &[u8]) -> Result<()> {
    check_bytes("data", data, MAX_LABEL_BYTES)
}

/// Replaces the data of a hold's one node (NODE-DATA). Retries until the server confirms it or the hold ends.
/// A request that arrives late is never written to another node.
pub(super) async fn write_data(operation: &'static str, hold: &Hold, data: &[u8]) -> Result<()> {
    written(hold, data).await.map_err(|error| error.in_operation(operation).on(hold.key()))
}

async fn written(hold: &Hold, data: &[u8]) -> Result<()> {
    check_data(data)?;
    let (client, data) = (hold.client(), Arc::from(data));
    let ended = || hold.check().err().unwrap_or_else(Error::closed);
    let node = hold.tenure().node().ok_or_else(ended)?;
    let clock = client.clock();
    let write = async {
        let mut pauses = Backoff::new(Pauses::OUTAGE);
        loop {
            match node.write_data(&data).await {
                Err(error) if error.may_pass() => pauses.wait(&clock).await,
                written => return written,
            }
        }
    };
    let written = async {
        tokio::select! {
            biased;
            _ = hold.lost() => Err(ended()),
            written = write => written,
        }
    };
    client.serve(written).await
}
