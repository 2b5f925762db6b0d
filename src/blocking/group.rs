//! Who is there.

use std::fmt;
use std::time::Duration;

use super::forward::{forward, keyed, recipe};
use super::guard::Guard;
use super::home::Home;
use super::iter::Answers;
use crate::{GroupChanges, GroupMember, Owner, Result};

recipe! {
    /// A group: its members, with what each says of itself, as long as each lives. As
    /// [`latchwork::Group`](crate::Group).
    ///
    /// ```
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let workers = coordinator.group("workers")?;
    /// let membership = workers.join(b"10.0.0.7:80")?;
    /// let mut changes = workers.watch()?.into_changes();
    /// assert_eq!(changes.next().expect("it goes on")?.joined[0].number, membership.number());
    /// membership.update(b"10.0.0.7:80 draining")?;
    /// assert_eq!(&*changes.next().expect("it goes on")?.changed[0].data, b"10.0.0.7:80 draining");
    /// # coordinator.close() }
    /// ```
    Group
}

impl Group {
    /// Joins, with what others are to see of it. As [`Group::join`](crate::Group::join), with its errors,
    /// and `InAsyncCode`.
    pub fn join(&self, data: &[u8]) -> Result<Membership> {
        Ok(Membership::new(self.home.run(self.recipe.join(data))?, &self.home))
    }

    /// As [`join`](Self::join), by an owner, whose label others see. As
    /// [`Group::join_as`](crate::Group::join_as), with its errors, and `InAsyncCode`.
    pub fn join_as(&self, data: &[u8], owner: &Owner) -> Result<Membership> {
        Ok(Membership::new(self.home.run(self.recipe.join_as(data, owner))?, &self.home))
    }

    /// Watches the members, once the group was read. As [`Group::watch`](crate::Group::watch), with its
    /// errors, and `InAsyncCode`.
    pub fn watch(&self) -> Result<GroupWatch> {
        let watch = self.home.run(self.recipe.watch())?;
        Ok(GroupWatch { watch, key: self.key().to_owned(), home: self.home.clone() })
    }

    forward! { Group:
        /// The members now, in the order of joining.
        fn members() -> Vec<GroupMember>;
    }

    keyed!();
}

/// A membership.
pub type Membership = Guard<crate::Membership>;

impl Membership {
    /// Its number among the members.
    pub fn number(&self) -> u64 {
        self.hold.number()
    }

    /// Replaces what others see of it. As [`Membership::update`](crate::Membership::update), with its
    /// errors, and `InAsyncCode`.
    pub fn update(&self, data: &[u8]) -> Result<()> {
        self.home.run(self.hold.update(data))
    }
}

/// The members of a group, as they change. As [`latchwork::GroupWatch`](crate::GroupWatch).
#[must_use = "a watch that is dropped at once sees nothing"]
pub struct GroupWatch {
    watch: crate::GroupWatch,
    key: String,
    home: Home,
}

impl GroupWatch {
    /// The members that were seen last, without a request. As
    /// [`GroupWatch::latest`](crate::GroupWatch::latest).
    ///
    /// # Errors
    /// Why the watch has ended.
    pub fn latest(&self) -> Result<Vec<GroupMember>> {
        self.watch.latest()
    }

    /// Whether the server is watched now.
    pub fn is_current(&self) -> bool {
        self.watch.is_current()
    }

    /// Waits until the members differ from the last answer, and answers all of them. As
    /// [`GroupWatch::changed`](crate::GroupWatch::changed), with its errors, and `InAsyncCode`.
    pub fn changed(&mut self) -> Result<Vec<GroupMember>> {
        self.home.run(self.watch.changed())
    }

    /// As [`changed`](Self::changed), for this long at most.
    ///
    /// # Errors
    /// `Timeout` when nothing has changed until then. Others as [`changed`](Self::changed).
    pub fn changed_within(&mut self, within: Duration) -> Result<Vec<GroupMember>> {
        self.home.run_within("watch", &self.key, within, self.watch.changed())
    }

    /// As [`changed`](Self::changed), and answers what differs. As
    /// [`GroupWatch::changes`](crate::GroupWatch::changes), with its errors, and `InAsyncCode`.
    pub fn changes(&mut self) -> Result<GroupChanges> {
        self.home.run(self.watch.changes())
    }

    /// As [`changes`](Self::changes), for this long at most.
    ///
    /// # Errors
    /// `Timeout` when nothing has changed until then. Others as [`changes`](Self::changes).
    pub fn changes_within(&mut self, within: Duration) -> Result<GroupChanges> {
        self.home.run_within("watch", &self.key, within, self.watch.changes())
    }

    /// The answers of [`changes`](Self::changes), until an error.
    pub fn into_changes(self) -> Answers<GroupChanges> {
        Answers::of(self.watch.into_changes(), &self.home)
    }
}

/// The answers of [`changed`](GroupWatch::changed), until an error.
impl IntoIterator for GroupWatch {
    type Item = Result<Vec<GroupMember>>;
    type IntoIter = Answers<Vec<GroupMember>>;

    fn into_iter(self) -> Self::IntoIter {
        Answers::of(self.watch.into_stream(), &self.home)
    }
}

impl fmt::Debug for GroupWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watch.fmt(f)
    }
}
