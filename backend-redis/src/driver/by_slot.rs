//! What goes into one script: keys of one slot, in a cluster.

use std::collections::BTreeMap;

use super::routing::Driver;

impl Driver {
    /// These apart by the slot of their keys, which share a `tag`; all together where all keys are on one
    /// server.
    pub(crate) fn by_slot<T>(
        &self,
        all: impl IntoIterator<Item = T>,
        tag: impl Fn(&T) -> &str,
    ) -> impl Iterator<Item = Vec<T>> {
        let mut slots: BTreeMap<Option<u16>, Vec<T>> = BTreeMap::new();
        for one in all {
            slots.entry(self.slot(tag(&one))).or_default().push(one);
        }
        slots.into_values()
    }
}
