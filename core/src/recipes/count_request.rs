//! A change of a count by the server ([`decide::count::request`](crate::decide::count::request)).

use super::cell_handle::CellHandle;
use super::tries::{Tries, does_not_fit, untold};
use crate::decide::count::Change;
use crate::decide::count::request::{CountOutcome, CountRequest};
use crate::error::Result;

/// Sends a request until its outcome is known: one round trip, or two if many other writers have changed the
/// count since. Returns `None` if the server cannot change counts. Sets `writes` to the number of writes of
/// the count.
pub(super) async fn natively(
    handle: &CellHandle,
    mut request: CountRequest,
    writes: &mut Option<u64>,
) -> Option<Result<Option<i64>>> {
    let mut tries = Tries::of_count(&handle.client);
    loop {
        request.in_doubt = tries.is_in_doubt();
        let asked = handle.client.backend.change_count(&handle.cell, &request, handle.time_to_idle());
        let again = match handle.client.serve(asked).await {
            Ok(None) => return None,
            Ok(Some(decided)) => {
                *writes = Some(decided.writes);
                match decided.outcome {
                    CountOutcome::Applied(result) => return Some(Ok(Some(result))),
                    CountOutcome::Refused => return Some(refused(request.change)),
                    CountOutcome::Untold if request.in_doubt => return Some(Err(untold())),
                    // It was the only request, so the new number cannot admit an older one.
                    CountOutcome::Untold => request.since = Some(decided.writes),
                }
                tries.again_at_once()
            }
            Err(error) => tries.again_after(error).await,
        };
        if let Err(error) = again {
            return Some(Err(error));
        }
    }
}

fn refused(change: Change) -> Result<Option<i64>> {
    match change {
        Change::Add(_) => Err(does_not_fit()),
        Change::Swap { .. } | Change::Down(_) => Ok(None),
    }
}
