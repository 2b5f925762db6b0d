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

pub(super) use addressed;
