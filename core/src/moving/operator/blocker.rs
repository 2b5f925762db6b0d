use std::fmt;

use serde::{Serialize, Serializer};

use super::{MoveClient, MoveLate, MoveOutsider, ValuesInUse};
use crate::decide::moving::Side;
use crate::decide::moving::evidence::Contradiction;
use crate::error::{Error, ErrorKind};
use crate::shown::shown;

pub(super) const NAMED: usize = 5;

/// A reason why a move cannot begin, continue, or finish.
///
/// It displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveBlocker {
    /// Clients are connected that do not take part.
    Outsiders(Vec<MoveOutsider>),
    /// Clients are still connected to the old side of a move that is to be finished.
    StillConnected(Vec<MoveOutsider>),
    /// A namespace has another marker: it is part of another move, or retired.
    MarkedOtherwise {
        /// The side.
        side: Side,
        /// The name of the other move; `None` if the namespace is retired.
        name: Option<String>,
        /// The URL to which its clients are sent.
        url: String,
    },
    /// The move has begun, but this side's marker is missing: the server has lost it, or the move began with
    /// another URL. Plain clients may have connected since.
    MarkerLost(Side),
    /// The sides contradict each other: one has lost data, or is not a side of this move.
    Contradicts(Contradiction),
    /// The new side has lost the moved values, and the old side may have the only copy, from before.
    OnlyCopy(Contradiction),
    /// These members have stopped at a contradiction, or know a later stage than the old side shows.
    MembersAhead(Vec<MoveLate>),
    /// These participants are on one side only, or are not members.
    Apart(Vec<MoveClient>),
    /// No participant is connected.
    NobodyTakesPart,
    /// The layout of this side has no records of moves.
    Layout(Side),
    /// The move is *done*, but the new side still refuses clients with its URL alone.
    NotOpened,
    /// The new side has values, which the copy would replace.
    ValuesThere(Vec<ValuesInUse>),
    /// A side cannot take the values in use.
    ValuesStay {
        /// The side.
        side: Side,
        /// The [capability](crate::Capabilities) that the side lacks.
        lacks: &'static str,
        /// The values with their kinds; the first ones, if there are very many.
        values: Vec<String>,
    },
    /// Both URLs name one namespace of one server.
    OnePlace,
    /// The tokens have no epochs left for a move and its way back.
    NoEpochs,
}

impl MoveBlocker {
    /// Returns an instruction for the operator.
    pub fn next_step(&self) -> &'static str {
        match self {
            MoveBlocker::Outsiders(_) => {
                "redeploy these clients with both URLs and the name of the move, or stop them"
            }
            MoveBlocker::StillConnected(_) => "redeploy these clients with the new URL alone, or stop them",
            MoveBlocker::MarkedOtherwise { name: Some(_), .. } => {
                "finish or abort that move first, or use the URLs and the name that it began with"
            }
            MoveBlocker::MarkedOtherwise { name: None, side: Side::New, .. } => {
                "use another namespace, or reopen this one (`latchwork migrate reopen`, Move::reopen)"
            }
            MoveBlocker::MarkedOtherwise { name: None, side: Side::Old, .. } => {
                "the clients of this namespace use that URL: move from that URL, or reopen this namespace (Operator::reopen, or \
                 `latchwork migrate reopen` with that URL as --from and this side as --to)"
            }
            MoveBlocker::MarkerLost(_) => {
                "write the marker again (`latchwork migrate repair`, Move::repair), with the URLs that the move began with"
            }
            MoveBlocker::Contradicts(_) => {
                "check the URLs; if they are those of the services, restore the side that has lost data \
                 (`latchwork migrate repair`, Move::repair)"
            }
            MoveBlocker::OnlyCopy(_) => {
                "stop the services, and restore the data of the new side from a backup; the values of the old side are from \
                 before the move, and no call deletes them"
            }
            MoveBlocker::MembersAhead(_) => {
                "write the stage again (`latchwork migrate repair`, Move::repair), or stop these clients"
            }
            MoveBlocker::Apart(_) => {
                "compare `from` and `to` of these clients with the URLs of this call, or wait until they have connected or expired"
            }
            MoveBlocker::NobodyTakesPart => {
                "start the services with both URLs and the name of the move, and compare them with this call"
            }
            MoveBlocker::Layout(_) => {
                "raise the layout of the namespace once all its clients are of this build (Operator::raise_layout)"
            }
            MoveBlocker::NotOpened => "open the new side (`latchwork migrate run`, Move::run)",
            MoveBlocker::ValuesThere(_) => {
                "the values of the old side would replace these values: delete these values, or move to another namespace"
            }
            MoveBlocker::OnePlace => "give another server or namespace as one of the sides",
            MoveBlocker::ValuesStay { .. } => {
                "move to a server that has the capability (`plan` shows the capabilities), or keep the values in another namespace"
            }
            MoveBlocker::NoEpochs => {
                "if the new side has used up its epochs, move to a new namespace there; otherwise stop the clients, start them with a \
                 new namespace, and reset the highest token in each fenced resource"
            }
        }
    }
}

impl fmt::Display for MoveBlocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |f: &mut fmt::Formatter<'_>, clients: &[MoveOutsider], [one, many]: [&str; 2]| {
            match clients.len() {
                1 => write!(f, "one client is {one}:")?,
                count => write!(f, "{count} clients are {many}:")?,
            }
            clients.iter().take(NAMED).try_for_each(|MoveOutsider { side, client }| {
                write!(f, " {:?} on {:?} ({} side)", client.label, client.host, side.as_str())
            })
        };
        match self {
            MoveBlocker::Outsiders(clients) => {
                counted(f, clients, ["connected and does not take part", "connected and do not take part"])
            }
            MoveBlocker::StillConnected(clients) => counted(f, clients, ["connected to the old side"; 2]),
            MoveBlocker::MarkedOtherwise { side, name, url } => {
                let (side, url) = (side.as_str(), shown(url, 1024));
                match name {
                    Some(name) => {
                        write!(f, "the {side} side is part of the move {:?}, with {url:?}", shown(name, 255))
                    }
                    None => write!(f, "the {side} side is retired in favour of {url:?}"),
                }
            }
            MoveBlocker::MarkerLost(side) => write!(
                f,
                "the marker of the move, or its epoch, is missing on the {} side: plain clients may have connected",
                side.as_str()
            ),
            MoveBlocker::Contradicts(found) => found.fmt(f),
            MoveBlocker::OnlyCopy(found) => {
                write!(f, "{found}. The values were there, and the old side may have the only copy")
            }
            MoveBlocker::MembersAhead(members) => {
                write!(
                    f,
                    "members ({}) have stopped, or know a later stage than the old side shows:",
                    members.len()
                )?;
                let named = members.iter().take(NAMED);
                named.into_iter().try_for_each(|of| write!(f, " {:?} on {:?}", of.label, of.host))
            }
            MoveBlocker::Apart(clients) => {
                write!(f, "participants ({}) are not connected to both sides:", clients.len())?;
                clients.iter().take(NAMED).try_for_each(|of| {
                    write!(f, " {:?} on {:?} ({})", of.label, of.host, of.lacks().unwrap_or_default())
                })
            }
            MoveBlocker::NobodyTakesPart => f.write_str("no participant of the move is connected"),
            MoveBlocker::Layout(side) => {
                write!(f, "the {} side has a layout from before the records of moves", side.as_str())
            }
            MoveBlocker::NotOpened => {
                f.write_str("the new side is still closed: clients with its URL alone are refused")
            }
            MoveBlocker::ValuesThere(values) => {
                f.write_str("the new side already has values:")?;
                let named = values.iter().flat_map(|of| of.keys.iter().map(|key| (of.kind, key)));
                named.take(NAMED).try_for_each(|(kind, key)| write!(f, " {kind} {:?}", shown(key, 255)))
            }
            MoveBlocker::ValuesStay { side, lacks, values } => {
                let (side, count) = (side.as_str(), values.len());
                write!(f, "the {side} side cannot store values ({count}): it lacks the capability {lacks}:")?;
                values.iter().take(NAMED).try_for_each(|value| write!(f, " {value}"))
            }
            MoveBlocker::OnePlace => f.write_str("both URLs name one namespace of one server"),
            MoveBlocker::NoEpochs => {
                f.write_str("the tokens have no epochs left for a move and its way back")
            }
        }
    }
}

impl Serialize for MoveBlocker {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown {
            what: String,
            next: &'static str,
        }
        Shown { what: self.to_string(), next: self.next_step() }.serialize(serializer)
    }
}

impl From<MoveBlocker> for Error {
    fn from(blocker: MoveBlocker) -> Self {
        Error::new(ErrorKind::Conflict, format!("{blocker}: {}", blocker.next_step()))
    }
}
