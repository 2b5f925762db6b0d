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
    /// Holds do not overlap, and permits keep their limit.
    Alone,
    /// Tokens rise, and no two writers have one token.
    Order,
    /// A fenced resource refuses no write.
    Fence,
    /// Each key is granted after each happening.
    Again,
    /// No key waits longer than its bound.
    Bound,
    /// Without happenings, their rules judge nothing.
    Happened,
    /// A change of phase delays no acquisition beyond its bound.
    Delay,
    /// A step comes within its bound after the last death.
    Step,
    /// No two adds have one result.
    Once,
    /// The counter never goes back.
    Forward,
    /// Each confirmed add counts, and other adds only in doubt.
    Total,
    /// Without adds, their rules judge nothing.
    Added,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) rule: Rule,
    pub(super) why: String,
}

impl Rule {
    pub(super) fn broken(self, why: impl Into<String>) -> Broken {
        Broken { rule: self, why: why.into() }
    }
}
