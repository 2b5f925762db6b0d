//! What a guarded resource makes of holds that may overlap: of a lock that a failover forgot, say.
//!
//! Each hold writes once when it has begun and once before it ends. The resource refuses a write with
//! a lower token than it has seen.

use latchwork_core::Claim;

use crate::hold_record::HoldRecord;

/// What became of the writes of exclusive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fenced {
    /// Exclusive holds.
    pub holds: usize,
    /// Of these, how many began before one that began earlier had ended: plain overlaps.
    pub overlaps: usize,
    /// Writes that the resource refused.
    pub refused: usize,
}

/// Plays the writes of all exclusive holds of one key to a resource, in the order in which they came.
///
/// # Errors
/// The two holds whose writes the resource has taken in turns, where the fence did not keep them
/// apart.
pub fn fenced(records: &[HoldRecord]) -> Result<Fenced, String> {
    let holds: Vec<_> = records.iter().filter(|record| record.claim == Claim::Exclusive).collect();
    let mut writes: Vec<_> = holds
        .iter()
        .enumerate()
        .flat_map(|(hold, record)| [(record.from, hold), (record.to, hold)])
        .collect();
    writes.sort_unstable();
    let mut said = Fenced { holds: holds.len(), ..Fenced::default() };
    let (mut highest, mut last) = (None, None);
    let mut begun = vec![false; holds.len()];
    let mut inside = 0_usize;
    for (_, hold) in writes {
        let first = !std::mem::replace(&mut begun[hold], true);
        if first {
            said.overlaps += usize::from(inside > 0);
            inside += 1;
        } else {
            inside -= 1;
        }
        let token = holds[hold].token;
        if token < highest {
            said.refused += 1;
            continue;
        }
        highest = token;
        // Its second write follows its first one, with nobody's between.
        if !first && last != Some(hold) {
            let between = last.map(|other: usize| holds[other]);
            return Err(format!("not kept apart: {:#?} and {between:#?}", holds[hold]));
        }
        last = Some(hold);
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use latchwork_core::Token;

    use super::*;

    fn record(token: u64, from: u64, to: u64) -> HoldRecord {
        let token = Some(Token::new(0, token).unwrap());
        HoldRecord { key: 0, claim: Claim::Exclusive, token, from, to }
    }

    #[test]
    fn a_stale_write_is_refused_and_the_overlap_is_counted() {
        let overlapping = [record(1, 0, 10), record(2, 5, 8), record(3, 20, 30)];
        assert_eq!(fenced(&overlapping), Ok(Fenced { holds: 3, overlaps: 1, refused: 1 }));
        let apart = [record(1, 0, 10), record(2, 11, 12)];
        assert_eq!(fenced(&apart), Ok(Fenced { holds: 2, overlaps: 0, refused: 0 }));
        // One that went back to an older number is refused whole.
        let backwards = [record(5, 0, 10), record(2, 11, 12)];
        assert_eq!(fenced(&backwards), Ok(Fenced { holds: 2, overlaps: 0, refused: 2 }));
    }

    /// One whose process was killed writes at its beginning alone.
    #[test]
    fn a_hold_of_no_time_is_found_inside_another() {
        let inside = [record(2, 0, 10), record(1, 5, 5)];
        assert_eq!(fenced(&inside), Ok(Fenced { holds: 2, overlaps: 1, refused: 2 }));
        assert_eq!(
            fenced(&[record(1, 5, 5), record(2, 5, 10)]),
            Ok(Fenced { holds: 2, overlaps: 0, refused: 0 })
        );
    }

    /// The control: without tokens that differ there is no fence.
    #[test]
    fn two_holds_with_one_token_are_found() {
        assert!(fenced(&[record(1, 0, 10), record(1, 5, 8)]).is_err());
    }
}
