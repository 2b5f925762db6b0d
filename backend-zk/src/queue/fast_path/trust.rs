//! The identities that a namespace's access control lists trust.
//!
//! An identity that may delete nodes of a queue can cause two holders without any announcement. One that may
//! only create announcements must not gain that power, so announcements are believed only if all their
//! creators may also delete nodes of queues.
//!
//! A directory that was created without a login lets every client delete nodes. This is only a warning, so
//! that a running fleet can adopt a login.

use crate::driver::Grant;

const ANYONE: &str = "world:anyone";

/// `None`: the directory does not exist, or its list may not be read.
pub(crate) fn believes_announcements(released: Option<&[Grant]>, queues: Option<&[Grant]>) -> bool {
    let (Some(released), Some(queues)) = (released, queues) else { return false };
    let powers = || queues.iter().filter(|to| to.delete || to.admin);
    let may_delete = |identity: &str| powers().any(|to| to.identity == identity || to.identity == ANYONE);
    released.iter().filter(|to| to.create || to.admin).all(|to| may_delete(&to.identity))
}

/// Whether anyone may create or delete children, or grant itself this right.
pub(crate) fn is_open(grants: &[Grant]) -> bool {
    grants.iter().any(|to| to.identity == ANYONE && (to.create || to.delete || to.admin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(identity: &str, rights: &str) -> Grant {
        Grant {
            identity: identity.to_owned(),
            create: rights.contains('c'),
            delete: rights.contains('d'),
            admin: rights.contains('a'),
        }
    }

    #[test]
    fn announcements_are_believed_of_identities_that_could_do_as_much_without() {
        let open = [grant(ANYONE, "cdrwa")];
        let ours = [grant("digest:app:x", "cdrwa")];
        let read = [grant("digest:app:x", "cdrwa"), grant(ANYONE, "r")];
        let two = [grant("digest:app:x", "cdrwa"), grant("digest:other:y", "c")];
        let admin = [grant("digest:app:x", "cdrwa"), grant("digest:other:y", "a")];
        for (released, queues, believed) in [
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
            assert_eq!(
                believes_announcements(Some(released), Some(queues)),
                believed,
                "{released:?} {queues:?}"
            );
        }
        assert!(!believes_announcements(None, Some(&open)));
        assert!(!believes_announcements(Some(&ours), None));
    }

    #[test]
    fn directory_is_open_if_anyone_may_change_its_children() {
        for (rights, open) in [("r", false), ("w", false), ("", false), ("c", true), ("d", true), ("a", true)]
        {
            assert_eq!(is_open(&[grant("digest:app:x", "cdrwa"), grant(ANYONE, rights)]), open, "{rights}");
        }
    }
}
