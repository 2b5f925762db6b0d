//! The record of a move to a namespace: part of the stamp's cell. It outlives the marker.

use super::fields::Fields;
use super::place::Place;
use crate::decide::moving::MovePhase;
use crate::decide::moving::evidence::{MoveId, MoveRecord};
use crate::decide::moving::values::ValuesAt;
use crate::error::{Error, ErrorKind, Result};
use crate::shown::shown;

const NAME: &str = "record";
const ID: &str = "record_id";
const FROM: &str = "record_from";
const TO: &str = "record_to";
const VALUES: &str = "record_values";
const OVER: &str = "record_over";
const EPOCH: &str = "record_epoch";
const URL: &str = "record_url";
const ALL: [&str; 8] = [NAME, ID, FROM, TO, VALUES, OVER, EPOCH, URL];
/// The next phase of a move that is given up.
const GIVEN_UP: &str = "given-up";

/// The record of a move, with the name of the move and the URL of its old side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) record: MoveRecord,
}

pub(super) fn read(fields: &Fields, place: &Place) -> Result<Option<Arrival>> {
    let Some(name) = fields.get(NAME) else { return Ok(None) };
    let parsed = || {
        let id = MoveId::parse(fields.get(ID)?)?;
        let from = MovePhase::parse(fields.get(FROM)?)?;
        let to = match fields.get(TO)? {
            GIVEN_UP => None,
            to => Some(MovePhase::parse(to)?),
        };
        let values = ValuesAt::parse(fields.get(VALUES)?)?;
        let (over, epoch) = (fields.get(OVER)?.parse().ok()?, fields.get(EPOCH)?.parse().ok()?);
        let url = fields.get(URL).unwrap_or_default().to_owned();
        let record = MoveRecord { id, from, to, values, over, epoch };
        Some(Arrival { name: name.to_owned(), url, record })
    };
    parsed().map(Some).ok_or_else(|| {
        let why = format!(
            "namespace {:?} has a record of the move {:?} that this build cannot read: use a newer build",
            place.namespace,
            shown(name, 255)
        );
        Error::new(ErrorKind::Misconfigured, why)
    })
}

pub(super) fn set(fields: &mut Fields, arrival: Option<&Arrival>) {
    let Some(Arrival { name, url, record }) = arrival else {
        return ALL.iter().for_each(|field| fields.set(field, None));
    };
    let to = record.to.map_or(GIVEN_UP, MovePhase::as_str).to_owned();
    let (over, epoch) = (record.over.to_string(), record.epoch.to_string());
    let (id, from) = (record.id.to_string(), record.from.as_str().to_owned());
    let values = record.values.as_str().to_owned();
    let values = [name.clone(), id, from, to, values, over, epoch, url.clone()];
    ALL.iter().zip(values).for_each(|(field, value)| fields.set(field, Some(value)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Namespace;

    #[test]
    fn a_record_is_read_as_it_was_written_and_leaves_the_rest() {
        let place = Place::of(&Namespace::new("n")).expect("a good namespace");
        for to in [None, Some(MovePhase::BothByNew)] {
            let (id, from) = (MoveId::new(7), MovePhase::BothByOld);
            let record = MoveRecord { id, from, to, values: ValuesAt::New, over: 12, epoch: 3 };
            let (name, url) = ("to etcd & back".to_owned(), "redis://old/2".to_owned());
            let arrival = Arrival { name, url, record };
            let mut fields = Fields::read(b"layout=2&later=x");
            set(&mut fields, Some(&arrival));
            let mut fields = Fields::read(fields.text().as_bytes());
            assert_eq!(read(&fields, &place).expect("readable"), Some(arrival));
            set(&mut fields, None);
            assert_eq!(fields.text(), "layout=2&later=x");
        }
        let error = read(&Fields::read(b"layout=2&record=m&record_id=x"), &place).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
    }
}
