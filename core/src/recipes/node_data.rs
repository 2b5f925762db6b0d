//! The data of a node: what a leader or a member says of itself.

use std::sync::Arc;

use super::cell_handle::check_bytes;
use super::hold::Hold;
use crate::contracts::MAX_LABEL_BYTES;
use crate::error::{Error, Result};
use crate::support::{Backoff, Pauses};

/// Checks what a user says of a node.
///
/// # Errors
/// `InvalidArgument` naming `data`.
pub(super) fn check_data(data: &[u8]) -> Result<()> {
    check_bytes("data", data, MAX_LABEL_BYTES)
}

/// Replaces the data of a hold's one node (NODE-DATA). Retries until it is confirmed, or until the
/// hold has ended: the server writes it to no other node, however late it comes.
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
