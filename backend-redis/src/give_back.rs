//! Giving back what is lost here but may live on there: else our own next acquire waits behind it for up to a TTL (RULES
//! C6). At worst it runs out by itself.

use std::sync::Arc;

use latchwork_core::contracts::{Flight, NodeKeeper};

use crate::client::{Client, LEAVES, farewell};
use crate::inbox::Slot;
use crate::scripts;

impl Client {
    /// Gives back all that is lost, beside the renewals of what is not; `None` when there is nothing. One at a time: who asks
    /// meanwhile gets that one to wait for.
    pub(crate) fn give_back_lost(self: &Arc<Self>) -> Option<Flight<()>> {
        self.giving_back.join_if(&self.runtime, || {
            let is_lost = |slot: &Arc<Slot>| {
                // Not what lost itself just now, by its fixed end or a close.
                let lost = |state: &NodeKeeper| state.lost().is_some() && !state.lingers();
                !slot.has_left() && slot.state().is_some_and(lost)
            };
            let lost: Vec<_> = self.inbox.all().into_iter().filter(is_lost).collect();
            (!lost.is_empty()).then(|| Arc::clone(self).give_back_until_closing(lost))
        })
    }

    pub(crate) fn give_back_later(self: &Arc<Self>, slot: &Arc<Slot>) {
        self.runtime.spawn(Arc::clone(self).give_back_until_closing(vec![Arc::clone(slot)]));
    }

    /// The close does what is not done by then.
    async fn give_back_until_closing(self: Arc<Self>, lost: Vec<Arc<Slot>>) {
        let mut closing = self.closing();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => {}
            () = self.give_back(&lost) => {}
        }
    }

    async fn give_back(self: &Arc<Self>, lost: &[Arc<Slot>]) {
        for burst in lost.chunks(LEAVES) {
            // Not what another gives back just now.
            let burst: Vec<_> = burst.iter().filter(|slot| slot.leave()).collect();
            let calls: Vec<_> = burst.iter().map(|slot| farewell(slot)).collect();
            let (mut silent, mut heard) = (false, false);
            for (slot, answer) in burst.iter().zip(self.driver.run_all(&calls, self.renewal_bound()).await) {
                match answer.and_then(|(_, reply)| scripts::left(reply)) {
                    Ok((_, flags)) => {
                        heard = true;
                        self.heed(flags, &slot.queue);
                    }
                    Err(error) if error.is_retryable() => {
                        // The next round does, or the close.
                        slot.stay();
                        silent = true;
                        continue;
                    }
                    Err(error) => tracing::debug!(%error, "a lost node was not given back; it runs out"),
                }
                self.forget(slot);
            }
            if silent && !heard {
                return;
            }
        }
    }
}
