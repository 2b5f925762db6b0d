//! Whom a namespace's access control lists trust, as they are when a session is opened.
//!
//! Whoever may delete nodes of a queue can let two hold, told of or not: that is the trust which a namespace asks for. Whoever may make
//! nodes where releases are told is to have no more power than that. So what is told there is believed only where all who may
//! tell it may delete nodes of queues too.
//!
//! A login keeps others off what is made with it, and does nothing for directories that were made without: in these everybody can
//! delete what we make. It is warned of, and not refused, so that a running fleet can take up a login.

use crate::driver::Grant;

/// Everybody, to ZooKeeper.
const ANYONE: &str = "world:anyone";

/// What a session may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    /// Releases are told, and what is told is believed.
    pub(crate) believes_told: bool,
}

impl Trust {
    /// By the lists of the directory in which releases are told and of that of the queues; `None`: not there, or not to be read.
    pub(crate) fn of(told: Option<&[Grant]>, queues: Option<&[Grant]>) -> Self {
        let believes_told = match (told, queues) {
            (Some(told), Some(queues)) => {
                let powers = || queues.iter().filter(|to| to.delete || to.admin);
                let may_delete = |whom: &str| powers().any(|to| to.whom == whom || to.whom == ANYONE);
                told.iter().filter(|to| to.create || to.admin).all(|to| may_delete(&to.whom))
            }
            _ => false,
        };
        Self { believes_told }
    }
}

/// Whether everybody may make or delete what is in it, or allow it itself.
pub(crate) fn is_open(grants: &[Grant]) -> bool {
    grants.iter().any(|to| to.whom == ANYONE && (to.create || to.delete || to.admin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(whom: &str, rights: &str) -> Grant {
        Grant {
            whom: whom.to_owned(),
            create: rights.contains('c'),
            delete: rights.contains('d'),
            admin: rights.contains('a'),
        }
    }

    #[test]
    fn what_is_told_is_believed_of_those_who_could_do_as_much_without() {
        let open = [grant(ANYONE, "cdrwa")];
        let ours = [grant("digest:app:x", "cdrwa")];
        let read = [grant("digest:app:x", "cdrwa"), grant(ANYONE, "r")];
        let two = [grant("digest:app:x", "cdrwa"), grant("digest:other:y", "c")];
        let admin = [grant("digest:app:x", "cdrwa"), grant("digest:other:y", "a")];
        for (told, queues, believed) in [
            (&open[..], &open[..], true),
            (&ours, &ours, true),
            (&ours, &open, true),
            (&read, &ours, true),
            (&open, &ours, false),
            (&two, &ours, false),
            (&admin, &ours, false),
            (&ours, &[grant("digest:app:x", "crw")][..], false),
            (&ours, &[grant("digest:app:x", "rwa")][..], true),
        ] {
            assert_eq!(Trust::of(Some(told), Some(queues)).believes_told, believed, "{told:?} {queues:?}");
        }
        assert!(!Trust::of(None, Some(&open)).believes_told);
        assert!(!Trust::of(Some(&ours), None).believes_told);
    }

    #[test]
    fn a_directory_is_open_where_everybody_may_make_or_delete_what_is_in_it() {
        for (rights, open) in [("r", false), ("w", false), ("", false), ("c", true), ("d", true), ("a", true)]
        {
            assert_eq!(is_open(&[grant("digest:app:x", "cdrwa"), grant(ANYONE, rights)]), open, "{rights}");
        }
    }
}
