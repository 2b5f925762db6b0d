use super::group_member::GroupMember;

/// The differences between two states of a group. Each list is in the order of joining.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChanges {
    /// Members that joined.
    pub joined: Vec<GroupMember>,
    /// Members that changed their data, with the new data.
    pub changed: Vec<GroupMember>,
    /// Members that left, with their last known data.
    pub left: Vec<GroupMember>,
}

impl GroupChanges {
    /// Compares two states, both in the order of joining.
    pub fn between(before: &[GroupMember], now: &[GroupMember]) -> Self {
        let of = |members: &[GroupMember], number| {
            members.binary_search_by_key(&number, |member| member.sequence).ok().map(|at| members[at].clone())
        };
        let mut changes = Self::default();
        for member in now {
            match of(before, member.sequence) {
                None => changes.joined.push(member.clone()),
                Some(was) if was != *member => changes.changed.push(member.clone()),
                Some(_) => {}
            }
        }
        let has_left = |member: &&GroupMember| of(now, member.sequence).is_none();
        changes.left = before.iter().filter(has_left).cloned().collect();
        changes
    }

    /// Returns whether the two states are equal.
    pub fn is_empty(&self) -> bool {
        self.joined.is_empty() && self.changed.is_empty() && self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1a` is member 1 with data `a`.
    fn members(text: &str) -> Vec<GroupMember> {
        let member = |word: &str| GroupMember {
            sequence: u64::from(word.as_bytes()[0] - b'0'),
            label: "it".to_owned(),
            data: word.as_bytes()[1..].into(),
        };
        text.split_whitespace().map(member).collect()
    }

    #[test]
    fn two_states_differ_in_who_joined_changed_and_left() {
        for (before, now, joined, changed, left) in [
            ("", "", "", "", ""),
            ("", "1a 2b", "1a 2b", "", ""),
            ("1a 2b", "1a 2b", "", "", ""),
            ("1a 2b", "1a 2c", "", "2c", ""),
            ("1a 2b", "", "", "", "1a 2b"),
            ("1a 2b 3c", "2x 3c 4d", "4d", "2x", "1a"),
            // The same data with another number is another member.
            ("1a", "2a", "2a", "", "1a"),
        ] {
            let changes = GroupChanges::between(&members(before), &members(now));
            let expected =
                GroupChanges { joined: members(joined), changed: members(changed), left: members(left) };
            assert_eq!(changes, expected, "{before:?} to {now:?}");
            assert_eq!(changes.is_empty(), before == now);
        }
    }
}
