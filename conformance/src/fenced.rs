//! Replays holds against a fenced resource. Each hold writes at its start and before its end.

use latchwork_core::Claim;

use crate::hold_record::HoldRecord;

/// The results of exclusive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fenced {
    /// The number of holds.
    pub holds: usize,
    /// Holds that started before an earlier one had ended.
    pub overlaps: usize,
    /// The refused writes.
    pub refused: usize,
}

/// Replays the exclusive holds of one key.
///
/// # Errors
/// Two holds whose accepted writes alternate.
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
        if !first && last != Some(hold) {
            let between = last.map(|other: usize| holds[other]);
            return Err(format!("the fence did not separate {:#?} and {between:#?}", holds[hold]));
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
        let backwards = [record(5, 0, 10), record(2, 11, 12)];
        assert_eq!(fenced(&backwards), Ok(Fenced { holds: 2, overlaps: 0, refused: 2 }));
    }

    /// A hold whose process was killed writes only at its start.
    #[test]
    fn a_hold_of_no_time_is_found_inside_another() {
        let inside = [record(2, 0, 10), record(1, 5, 5)];
        assert_eq!(fenced(&inside), Ok(Fenced { holds: 2, overlaps: 1, refused: 2 }));
        assert_eq!(
            fenced(&[record(1, 5, 5), record(2, 5, 10)]),
            Ok(Fenced { holds: 2, overlaps: 0, refused: 0 })
        );
    }

    /// The control.
    #[test]
    fn two_holds_with_one_token_are_found() {
        assert!(fenced(&[record(1, 0, 10), record(1, 5, 8)]).is_err());
    }
}
