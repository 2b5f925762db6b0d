//! What the handles of the recipes have in common.

/// Gives a recipe its key, its address, and a `Debug` that shows the address and the fields after it.
macro_rules! addressed {
    ($recipe:ident, $self:ident => $address:expr $(, $field:ident)?) => {
        impl $recipe {
            /// The key, as it was given.
            pub fn key(&self) -> &str {
                self.address().name()
            }

            /// The address on the coordinator of its queue or, if it has no queue, of its cell.
            pub fn address(&$self) -> &$crate::address::Address {
                &$address
            }
        }

        impl std::fmt::Debug for $recipe {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($recipe));
                shown.field("address", self.address())$(.field(stringify!($field), &self.$field()))?;
                shown.finish_non_exhaustive()
            }
        }
    };
}

/// As [`addressed`], for a recipe whose users see its queue, and may repair it.
macro_rules! queued {
    ($recipe:ident $(, $field:ident)?) => {
        $crate::recipes::handles::addressed!($recipe, self => self.handle.queue $(, $field)?);

        impl $recipe {
            /// The holders and waiters, in order and with their data: no I/O.
            pub fn queue(&self) -> $crate::listing::Listing<$crate::contracts::QueueEntry> {
                self.handle.listing()
            }

            /// Removes any client's node from the queue, and admits those that it blocked: for operators.
            /// Take its sequence number from [`queue`](Self::queue). Answers whether the node was there.
            ///
            /// Its owner hears `Revoked`, at once if the backend can notify it, and works on until then:
            /// only fencing keeps its last writes out.
            ///
            /// # Errors
            /// `Unavailable`; `OutcomeUnknown` when it may have been carried out (harmless to repeat);
            /// `Forbidden`; `Closed`; `RuntimeGone`.
            ///
            /// # Cancel safety
            /// A dropped call may or may not have been carried out.
            pub async fn force_release(&self, sequence: u64) -> $crate::error::Result<bool> {
                self.handle.force_release(sequence).await
            }
        }
    };
}

pub(super) use {addressed, queued};
