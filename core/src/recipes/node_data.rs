use std::sync::Arc;

use super::cell_handle::check_bytes;
use super::hold::Hold;
use super::tries::Tries;
use crate::client::Client;
use crate::contracts::{MAX_LABEL_BYTES, Node};
use crate::error::{Error, Result};

pub(super) fn check_data(data: &[u8]) -> Result<()> {
    check_bytes("data", data, MAX_LABEL_BYTES)
}

/// Replaces the data of a hold's one node (NODE-DATA). Retries until the server confirms it, for one TTL, or
/// the hold ends.
pub(super) async fn write_data(operation: &'static str, hold: &Hold, data: &[u8]) -> Result<()> {
    written(hold, data).await.map_err(|error| error.in_operation(operation).on(hold.key()))
}

async fn written(hold: &Hold, data: &[u8]) -> Result<()> {
    check_data(data)?;
    let client = hold.client();
    let ended = || hold.check().err().unwrap_or_else(Error::closed);
    let node = hold.tenure().node().ok_or_else(ended)?;
    // A backend may write the data of a node one after the other.
    let write = client.cleanup.driven(write(Arc::clone(client), node, Arc::from(data)));
    let written = async {
        tokio::select! {
            biased;
            _ = hold.lost() => Err(ended()),
            written = write => written,
        }
    };
    client.serve(written).await
}

async fn write(client: Arc<Client>, node: Arc<dyn Node>, data: Arc<[u8]>) -> Result<()> {
    // A lease that is renewed does not end the tries: the server refuses only the data, for example because it
    // is full.
    let unknown = "the reply to a request was lost: the data may have been written";
    let mut tries = Tries::new(&client, unknown);
    loop {
        match node.write_data(&data).await {
            Ok(()) => return Ok(()),
            Err(error) => tries.again_after(error).await?,
        }
    }
}
