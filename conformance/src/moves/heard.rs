use std::collections::BTreeMap;

use super::counted::Adds;
use super::grant::Grant;
use super::traffic::TrafficEvent;

#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Each once; only the start if its process was killed.
    pub(super) grants: Vec<Grant>,
    pub(super) lost: usize,
    pub(super) died: usize,
    pub(super) failed: Vec<String>,
    pub(super) adds: Adds,
}

#[derive(Debug, Default)]
pub(super) struct Begun(BTreeMap<usize, Grant>);

impl Heard {
    pub(super) fn take(&mut self, event: TrafficEvent, begun: &mut Begun) -> Result<Option<Grant>, String> {
        match event {
            TrafficEvent::Begins(grant) => match begun.0.insert(grant.held.key, grant) {
                None => Ok(None),
                Some(other) => Err(format!("{grant:?} starts, but {other:?} has not ended")),
            },
            TrafficEvent::Granted(grant) => {
                self.end(grant, begun)?;
                Ok(Some(grant))
            }
            TrafficEvent::HeldUntil(grant) => {
                self.lost += 1;
                self.end(grant, begun)?;
                Ok(None)
            }
            TrafficEvent::Added(added) => {
                self.adds.confirmed.push(added);
                Ok(None)
            }
            TrafficEvent::InDoubt { why } => {
                self.adds.in_doubt += 1;
                self.failed.push(why);
                Ok(None)
            }
            TrafficEvent::Failed { why } => {
                self.failed.push(why);
                Ok(None)
            }
            TrafficEvent::Begun => Ok(None),
        }
    }

    fn end(&mut self, grant: Grant, begun: &mut Begun) -> Result<(), String> {
        let began = begun.0.remove(&grant.held.key);
        if began
            .is_none_or(|began| (began.held.token, began.held.from) != (grant.held.token, grant.held.from))
        {
            return Err(format!("the end of {grant:?}, but {began:?} has started"));
        }
        self.grants.push(grant);
        Ok(())
    }

    pub(super) fn ends(&mut self, begun: Begun) {
        self.died += begun.0.len();
        self.grants.extend(begun.0.into_values());
    }

    pub(super) fn add(&mut self, other: Self) {
        let Self { grants, lost, died, failed, adds } = other;
        self.grants.extend(grants);
        self.lost += lost;
        self.died += died;
        self.failed.extend(failed);
        self.adds.confirmed.extend(adds.confirmed);
        self.adds.in_doubt += adds.in_doubt;
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::{Claim, Token};

    use super::*;
    use crate::hold_record::HoldRecord;

    fn grant(key: usize, token: u64, from: u64, to: u64) -> Grant {
        let token = Some(Token::new(0, token).unwrap());
        Grant { asked: 0, held: HoldRecord { key, claim: Claim::Exclusive, token, from, to } }
    }

    #[test]
    fn each_hold_is_heard_once_however_it_ends() {
        let (mut heard, mut begun) = (Heard::default(), Begun::default());
        let ends = [
            (TrafficEvent::Begins(grant(0, 1, 5, 5)), None),
            (TrafficEvent::Begins(grant(1, 1, 5, 5)), None),
            (TrafficEvent::Granted(grant(0, 1, 5, 9)), Some(grant(0, 1, 5, 9))),
            (TrafficEvent::HeldUntil(grant(1, 1, 5, 8)), None),
            (TrafficEvent::Begins(grant(0, 2, 20, 20)), None),
        ];
        for (event, granted) in ends {
            assert_eq!(heard.take(event, &mut begun), Ok(granted));
        }
        heard.ends(begun);
        assert_eq!(heard.grants, [grant(0, 1, 5, 9), grant(1, 1, 5, 8), grant(0, 2, 20, 20)]);
        assert_eq!((heard.lost, heard.died), (1, 1));
    }

    #[test]
    fn an_end_without_its_beginning_is_found() {
        for wrong in [grant(0, 2, 5, 9), grant(0, 1, 6, 9), grant(1, 1, 5, 9)] {
            let (mut heard, mut begun) = (Heard::default(), Begun::default());
            heard.take(TrafficEvent::Begins(grant(0, 1, 5, 5)), &mut begun).unwrap();
            assert!(heard.take(TrafficEvent::Granted(wrong), &mut begun).is_err(), "{wrong:?}");
        }
    }
}
