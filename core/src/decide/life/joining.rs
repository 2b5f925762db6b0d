use super::answer::{Advance, Failure, Residue, joins_anew};

/// An attempt before its node exists. All its joins have one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Joining {
    residue: Residue,
    unanswered: bool,
}

impl Joining {
    /// Creates an attempt that has sent nothing.
    pub fn new() -> Self {
        Self { residue: Residue::Nothing, unanswered: false }
    }

    /// Records that a join is sent. Returns whether an earlier join of this attempt has no answer
    /// ([`Join::repeated`](crate::contracts::Join)).
    pub fn sent(&mut self) -> bool {
        self.residue = Residue::Unknown;
        self.unanswered
    }

    /// Records that the join made a node, `admitted` or in the queue.
    pub fn joined(&mut self, admitted: bool) -> Advance {
        self.residue = Residue::Node;
        if admitted { Advance::Hold } else { Advance::Wait }
    }

    /// Records that a try was not admitted: the server keeps nothing.
    pub fn refused(&mut self) -> Advance {
        self.residue = Residue::Nothing;
        Advance::Refused
    }

    /// Records that the join failed.
    pub fn failed(&mut self, failure: Failure) -> Advance {
        self.residue = Residue::after(failure, self.unanswered);
        match failure {
            Failure::Unanswered => {
                self.unanswered = true;
                Advance::JoinAgain
            }
            Failure::Unsent => Advance::JoinAgain,
            Failure::Lost(reason) if joins_anew(reason) => Advance::JoinAnew,
            Failure::Lost(_) | Failure::Closed | Failure::Refused => Advance::Fail,
        }
    }

    /// Records the end of the acquisition.
    pub fn give_up(&mut self) -> Residue {
        std::mem::replace(&mut self.residue, Residue::Nothing)
    }

    /// Records that the node has an owner.
    pub fn keep(&mut self) {
        self.residue = Residue::Nothing;
    }
}

impl Default for Joining {
    fn default() -> Self {
        Self::new()
    }
}
