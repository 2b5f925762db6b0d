macro_rules! addressed {
    ($recipe:ident, $self:ident => $address:expr $(, $field:ident)?) => {
        impl $recipe {
            /// Returns the key.
            pub fn key(&self) -> &str {
                self.address().name()
            }

            /// Returns the address on the coordinator.
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
