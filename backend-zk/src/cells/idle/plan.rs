use latchwork_core::backend::CellWrite;
use latchwork_core::{CellLife, Expected};

use super::found::{Found, STAYS};
use crate::cell_uses::{CellUses, Use};
use crate::cells::kept::Kept;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Refuse,
    Nothing,
    Create,
    Overwrite,
    Replace,
    Delete,
}

impl Plan {
    pub(super) fn of(write: &CellWrite, found: Option<&Found>) -> Self {
        let cell = found.and_then(|found| found.cell.as_ref());
        if !write.expected.is_met_by(cell.map(|cell| cell.version)) {
            return Plan::Refuse;
        }
        match (&write.value, found) {
            (None, _) if cell.is_none() => Plan::Nothing,
            (None, _) => Plan::Delete,
            (Some(_), None) => Plan::Create,
            (Some(_), Some(found)) if cell.is_some() && found.is_kept_as(write.life) => Plan::Overwrite,
            (Some(_), Some(_)) => Plan::Replace,
        }
    }

    /// The plan before any read: from the version, or a likely guess, which the children confirm or refute.
    pub(super) fn at_once(write: &CellWrite, cell: &str, uses: &CellUses) -> Option<(Self, Option<Found>)> {
        let counting = || match write.life {
            CellLife::Idle(time) => uses.counting(cell).filter(|last| last.is_of(time)),
            CellLife::Stays | CellLife::Lease => None,
        };
        match (&write.value, write.expected, write.life) {
            (None, Expected::Any, _) => Some((Plan::Delete, Some(Found::guess(None)))),
            (None, ..) => None,
            (Some(_), Expected::Absent, _) => Some((Plan::Create, None)),
            (Some(_), Expected::Any, CellLife::Stays) => Some((Plan::Overwrite, Some(Found::guess(None)))),
            (Some(_), Expected::Any, _) => Some(match counting() {
                Some(counting) => (Plan::Overwrite, Some(Found::guess(Some(counting)))),
                None => (Plan::Create, None),
            }),
            (Some(_), Expected::Version(version), life) => {
                let found = match (Kept::from_bits(version.number()), life) {
                    (Kept::Stays, CellLife::Stays) => Found::by(version, Vec::new()),
                    (Kept::ByUse, CellLife::Idle(_)) => Found::by(version, vec![counting()?]),
                    _ => return None,
                };
                Some((Plan::Overwrite, Some(found)))
            }
        }
    }

    /// Whether the condition identifies the node. Otherwise its children must.
    pub(super) fn is_exact(self, write: &CellWrite, found: &Found) -> bool {
        let has_cell = found.cell.is_some();
        // The generation shows that a plain node without a child is still plain.
        let bare = self == Plan::Overwrite && found.kept == Kept::Stays && !found.stays;
        matches!(write.expected, Expected::Version(_)) || !has_cell || bare
    }
}

impl Found {
    /// An ephemeral node is always created again: a server never changes the session of a node.
    fn is_kept_as(&self, life: CellLife) -> bool {
        match life {
            CellLife::Stays => self.kept == Kept::Stays,
            CellLife::Lease => false,
            // Such a new creation fails if another client has created another use with the old time.
            CellLife::Idle(time) => {
                self.kept == Kept::ByUse && !self.uses.is_empty() && self.uses.iter().all(|it| it.is_of(time))
            }
        }
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &str> {
        self.stays.then_some(STAYS).into_iter().chain(self.uses.iter().map(|it| it.name.as_str()))
    }

    /// Creates no use while a use of this client counts. The transaction then checks a found use, because the
    /// server is about to remove a container without uses.
    pub(super) fn used(&self, last: Option<&Use>, new: Use, counting: Option<&Use>) -> Uses {
        let here = |one: Option<&Use>| one.map(|one| one.name.clone()).filter(|name| self.has(name));
        if let Some(counting) = here(counting) {
            return Uses { checked: Some(counting), deleted: None, made: None };
        }
        let deleted = here(last);
        let checked = self.uses.first().filter(|_| deleted.is_none()).map(|it| it.name.clone());
        Uses { checked, deleted, made: Some(new) }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.uses.iter().any(|it| it.name == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) checked: Option<String>,
    pub(super) deleted: Option<String>,
    pub(super) made: Option<Use>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork_core::TimeToIdle;

    use super::*;
    use crate::cells::condition::Condition;

    const CONDITION: Condition = Condition { generation: 3, data_version: 7 };

    fn idle(seconds: u64) -> TimeToIdle {
        TimeToIdle::new(Duration::from_secs(seconds)).unwrap()
    }

    fn found(kept: Kept, stays: bool, uses: Vec<Use>) -> Found {
        Found { stays, ..Found::by(CONDITION.version(1, kept), uses) }
    }

    #[test]
    fn plan_of_a_write_follows_from_the_found_cell() {
        use Plan::{Create, Delete, Nothing, Overwrite, Refuse, Replace};
        let of = |seconds| vec![Use::new(idle(seconds))];
        let (stays, bare) = (found(Kept::Stays, true, Vec::new()), found(Kept::Stays, false, Vec::new()));
        let (used, leased) = (found(Kept::ByUse, false, of(4)), found(Kept::ByLease, false, Vec::new()));
        let over = Found { cell: None, ..found(Kept::ByUse, false, Vec::new()) };
        let version = |of: &Found| Expected::Version(of.cell.as_ref().expect("a cell").version);
        let lives = [CellLife::Stays, CellLife::Lease, CellLife::Idle(idle(4)), CellLife::Idle(idle(5))];
        for (expected, found, plans, deletion) in [
            (Expected::Any, None, [Create; 4], Nothing),
            (Expected::Any, Some(&over), [Replace; 4], Nothing),
            (Expected::Any, Some(&stays), [Overwrite, Replace, Replace, Replace], Delete),
            (Expected::Any, Some(&bare), [Overwrite, Replace, Replace, Replace], Delete),
            (Expected::Any, Some(&used), [Replace, Replace, Overwrite, Replace], Delete),
            (Expected::Any, Some(&leased), [Replace; 4], Delete),
            (Expected::Absent, None, [Create; 4], Nothing),
            (Expected::Absent, Some(&over), [Replace; 4], Nothing),
            (Expected::Absent, Some(&used), [Refuse; 4], Refuse),
            (version(&used), Some(&used), [Replace, Replace, Overwrite, Replace], Delete),
            (version(&used), Some(&stays), [Refuse; 4], Refuse),
            (version(&used), Some(&over), [Refuse; 4], Refuse),
            (version(&used), None, [Refuse; 4], Refuse),
        ] {
            let plan = |value: Option<&[u8]>, life| {
                Plan::of(&CellWrite { expected, value: value.map(Into::into), life }, found)
            };
            assert_eq!(lives.map(|life| plan(Some(b"1"), life)), plans, "{expected:?} {found:?}");
            assert_eq!(plan(None, CellLife::Stays), deletion, "{expected:?} {found:?}");
        }
    }

    #[test]
    fn the_node_is_compared_where_no_child_shows_which_it_is() {
        let write = |expected| CellWrite { expected, value: Some([].into()), life: CellLife::Stays };
        let (stays, bare) = (found(Kept::Stays, true, Vec::new()), found(Kept::Stays, false, Vec::new()));
        let over = Found { cell: None, ..found(Kept::ByUse, false, Vec::new()) };
        assert!(!Plan::Overwrite.is_exact(&write(Expected::Any), &stays));
        assert!(Plan::Overwrite.is_exact(&write(Expected::Any), &bare));
        assert!(
            Plan::Overwrite.is_exact(&write(Expected::Version(CONDITION.version(1, Kept::Stays))), &stays)
        );
        assert!(!Plan::Replace.is_exact(&write(Expected::Any), &stays));
        assert!(Plan::Replace.is_exact(&write(Expected::Any), &over));
    }

    #[test]
    fn a_write_reports_its_use_in_the_place_of_the_last_and_never_revives() {
        let (mine, theirs, new) = (Use::new(idle(4)), Use::new(idle(4)), Use::new(idle(4)));
        let both = found(Kept::ByUse, false, vec![theirs.clone(), mine.clone()]);
        let name = |it: &Use| Some(it.name.clone());
        let made = Some(new.clone());
        let used = |last, counting| both.used(last, new.clone(), counting);
        let counts = used(Some(&mine), Some(&mine));
        assert_eq!(counts, Uses { checked: name(&mine), deleted: None, made: None });
        assert_eq!(used(Some(&mine), None), Uses { checked: None, deleted: name(&mine), made: made.clone() });
        let gone = Use::new(idle(4));
        let beside = Uses { checked: name(&theirs), deleted: None, made };
        assert_eq!((used(None, None), used(Some(&gone), Some(&gone))), (beside.clone(), beside));
    }
}
