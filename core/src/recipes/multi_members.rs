use std::sync::Arc;

use super::member::MultiMember;
use super::one_server::use_one_server;
use crate::decide::gather::canonical_order;
use crate::error::{Error, Result};

/// At least one, and no member twice.
pub(super) struct MultiMembers {
    // In the order in which they were given.
    pub(super) members: Vec<MultiMember>,
    // Places in `members`, in canonical order.
    pub(super) order: Vec<usize>,
    pub(super) name: String,
}

impl MultiMembers {
    pub(super) fn new(members: Vec<MultiMember>) -> Result<Self> {
        if members.is_empty() {
            return Err(Error::invalid("members", "the list of locks is empty"));
        }
        for (place, member) in members.iter().enumerate() {
            let is_twin = |other: &&MultiMember| {
                !Arc::ptr_eq(other.handle.client(), member.handle.client())
                    && other.coordinator() == member.coordinator()
            };
            if let Some(other) = members[..place].iter().find(is_twin) {
                let why = match member.coordinator() {
                    Some(name) => format!("two coordinators have the name {name:?}"),
                    None => {
                        "two coordinators have no name: give each coordinator a different option `name`, \
                             the same in all processes (the locks are acquired in the order of the names)"
                            .to_owned()
                    }
                };
                let keys = format!("{why} ({:?}, {:?})", other.address(), member.address());
                return Err(Error::invalid("name", keys));
            }
        }
        let order = canonical_order(members.iter().map(place_in_order)).map_err(|(_, twice)| {
            let address = members[twice].address();
            Error::invalid("members", "the lock is given twice").on(address.name())
        })?;
        let keys: Vec<_> = members.iter().map(|member| member.address().name()).collect();
        let name = keys.join(" + ");
        Ok(Self { members, order, name })
    }

    /// Refuses one lock under two names of its coordinator: the acquisition would wait for itself.
    pub(super) async fn check_apart(&self) -> Result<()> {
        for (place, one) in self.members.iter().enumerate() {
            for other in self.members[..place].iter().filter(|other| other.address() == one.address()) {
                if use_one_server(one.handle.client(), other.handle.client()).await {
                    let why = format!(
                        "the lock is given twice: the coordinators {:?} and {:?} are one server",
                        other.coordinator().unwrap_or_default(),
                        one.coordinator().unwrap_or_default()
                    );
                    return Err(Error::invalid("members", why).on(one.address().name()));
                }
            }
        }
        Ok(())
    }

    pub(super) fn in_order(&self) -> impl Iterator<Item = &MultiMember> {
        self.order.iter().map(|place| &self.members[*place])
    }
}

/// Returns the sort key of a member, which is the same in every process. The coordinator's name is first. The
/// namespace is last: exact addresses have none, and during a move processes use two.
fn place_in_order(member: &MultiMember) -> (&str, &str, &str, &str) {
    let address = member.address();
    let namespace = address.namespace().unwrap_or_default();
    (member.coordinator().unwrap_or_default(), address.kind().as_str(), address.coded(), namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::{Clock, Config};

    /// During a move, and while services still use the old URLs, one coordinator has two namespaces.
    #[tokio::test]
    async fn lock_order_does_not_depend_on_the_namespace() {
        let of = |name: &str, namespace: &str| {
            let mut config = Config::new("memory");
            (config.name, config.namespace) = (Some(name.to_owned()), namespace.to_owned());
            Memory::new(Clock::system()).connect(&config).expect("memory").0
        };
        let order = |moves: &str| {
            let (moves, stays) = (of("b", moves), of("a", "middle"));
            let given = [(&moves, "y"), (&stays, "z"), (&moves, "x")];
            let members = given.map(|(of, key)| of.mutex(key).expect("a good key").into());
            MultiMembers::new(members.into()).expect("good members").order.to_vec()
        };
        assert_eq!(order("before"), [1, 2, 0]);
        assert_eq!(order("the-new-one"), order("before"));
    }
}
