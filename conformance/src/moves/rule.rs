//! The rules of the verdict.

macro_rules! rules {
    ($($(#[doc = $line:literal])+ $rule:ident,)+) => {
        /// A rule of the verdict.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Rule {
            $($(#[doc = $line])+ $rule,)+
        }

        impl Rule {
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$rule),+];
        }
    };
}

rules! {
    /// No two clients hold at once, and permits never exceed their limit.
    Alone,
    /// Tokens rise in the order of holding, and no two writers have the same token.
    Order,
    /// A resource that the tokens fence refuses no write.
    Fence,
    /// Each key is granted again after each happening.
    Again,
    /// No key is without a grant for longer than its bound.
    Bound,
    /// Something has happened: otherwise the rules about happenings judge nothing.
    Happened,
    /// A change of phase delays no acquisition by more than its bound.
    Delay,
    /// A step comes within its bound after the last process that died.
    Step,
    /// No two adds come to the same number.
    Once,
    /// The counter never goes back.
    Forward,
    /// The counter has each confirmed add, and no more than those and the ones in doubt.
    Total,
    /// Something was added: otherwise the rules about adds judge nothing.
    Added,
}

/// A rule that a run has broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) rule: Rule,
    /// The explanation for people.
    pub(super) why: String,
}

impl Rule {
    pub(super) fn broken(self, why: impl Into<String>) -> Broken {
        Broken { rule: self, why: why.into() }
    }
}
