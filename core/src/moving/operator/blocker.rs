//! What is in the way of a move.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{Move, MoveClient, MoveOutsider, ValuesInUse};
use crate::decide::moving::gate::GateMarker;
use crate::decide::moving::{MovePhase, Side, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
use crate::shown::shown;

/// An error names so many clients.
const NAMED: usize = 5;

/// What keeps a move from beginning, or from being finished. It displays as a sentence, and says the
/// [next step](Self::next_step).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveBlocker {
    /// Clients are connected that do not take part.
    Outsiders(Vec<MoveOutsider>),
    /// Clients are connected to the old side of a move that is to be finished.
    StillConnected(Vec<MoveOutsider>),
    /// A namespace is marked otherwise: it is part of another move, or retired.
    MarkedOtherwise {
        /// Of which side it is.
        side: Side,
        /// The name of the other move; `None` where the namespace is retired.
        name: Option<String>,
        /// Where its clients are sent.
        url: String,
    },
    /// The marker of this side does not stand any more, in mid-move: the server has lost it, or the move was
    /// begun with another URL. Plain clients may have come in.
    MarkerLost(Side),
    /// The old side has no stage of the move, and may have lost it: those who take part may be in a later phase,
    /// and go by that.
    StageLost(Vec<MoveClient>),
    /// The move is *done*, and its marker stands on the new side still: clients with that URL alone are refused.
    NotOpened,
    /// The new side has values, over which those of the old one would be copied.
    ValuesThere(Vec<ValuesInUse>),
    /// Values are in use that a side cannot take.
    ValuesStay {
        /// Which side that is.
        side: Side,
        /// The [capability](crate::Capabilities) that they need, and it lacks.
        lacks: &'static str,
    },
    /// The tokens have no room for another move that may be taken back.
    NoEpochs,
}

impl MoveBlocker {
    /// What to do about it, in the imperative.
    pub fn next_step(&self) -> &'static str {
        match self {
            MoveBlocker::Outsiders(_) => {
                "deploy them anew with both URLs and the name of the move, or end them"
            }
            MoveBlocker::StillConnected(_) => "deploy them anew with the new URL alone, or end them",
            MoveBlocker::MarkedOtherwise { name: Some(_), .. } => {
                "end that move first, or use the URLs and the name with which it began"
            }
            MoveBlocker::MarkedOtherwise { name: None, side: Side::New, .. } => {
                "use another namespace, or take it into use again (`latchwork migrate reopen`, Move::reopen)"
            }
            MoveBlocker::MarkedOtherwise { name: None, side: Side::Old, .. } => {
                "move from that URL, where its clients are; or take it into use again (Coordinator::reopen, or \
                 `latchwork migrate reopen` with that URL as --from and this side as --to)"
            }
            MoveBlocker::MarkerLost(_) => {
                "shut it again (`latchwork migrate repair`, Move::repair), with the URLs with which it began"
            }
            MoveBlocker::StageLost(_) => {
                "if no server has lost data, make the move anew (`latchwork migrate run`, Move::run); else end them, and \
                 then give it up (`latchwork migrate abort`, Move::abort)"
            }
            MoveBlocker::NotOpened => "open it (`latchwork migrate run`, Move::run)",
            MoveBlocker::ValuesThere(_) => {
                "delete them if nobody needs them, or move to another namespace: the old side's values are copied there"
            }
            MoveBlocker::ValuesStay { .. } => {
                "move to a server that does (`plan` shows what each side promises), or keep the values in a namespace of their own"
            }
            MoveBlocker::NoEpochs => {
                "use a new namespace for the new side, whose fenced resources begin anew"
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
                counted(f, clients, ["connected that does not take part", "connected that do not take part"])
            }
            MoveBlocker::StillConnected(clients) => counted(f, clients, ["connected to the old side"; 2]),
            MoveBlocker::MarkedOtherwise { side, name, url } => {
                let (side, url) = (side.as_str(), shown(url, 1024));
                match name {
                    Some(name) => {
                        write!(f, "the {side} side is in the move {:?}, with {url:?}", shown(name, 255))
                    }
                    None => write!(f, "the {side} side is retired, in favour of {url:?}"),
                }
            }
            MoveBlocker::MarkerLost(side) => write!(
                f,
                "the marker of the move, or what belongs to it, does not stand on the {} side any more: plain clients may \
                 have come in",
                side.as_str()
            ),
            MoveBlocker::StageLost(clients) => {
                write!(
                    f,
                    "the old side has no stage of the move, and may have lost it: {} take part",
                    clients.len()
                )?;
                clients.iter().take(NAMED).try_for_each(|of| write!(f, " {:?} on {:?}", of.label, of.host))
            }
            MoveBlocker::NotOpened => {
                f.write_str("the new side is shut still: clients with its URL alone are refused")
            }
            MoveBlocker::ValuesThere(values) => {
                f.write_str("the new side has values already:")?;
                let named = values.iter().flat_map(|of| of.keys.iter().map(|key| (of.kind, key)));
                named.take(NAMED).try_for_each(|(kind, key)| write!(f, " {kind} {:?}", shown(key, 255)))
            }
            MoveBlocker::ValuesStay { side, lacks } => {
                write!(
                    f,
                    "values are in use, and the {} side cannot take them: it lacks {lacks}",
                    side.as_str()
                )
            }
            MoveBlocker::NoEpochs => f.write_str("the tokens have no epochs left for a move there and back"),
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

impl Move {
    /// What the markers and the epochs of both sides have against a move.
    pub(super) fn blocked_by(&self, stamps: [&Stamped; 2]) -> Vec<MoveBlocker> {
        let mut blockers = Vec::new();
        for (side, stamped) in [Side::Old, Side::New].into_iter().zip(stamps) {
            if let Some(GateMarker { name, url, .. }) =
                stamped.marker.as_ref().filter(|marker| !self.marker(side).may_follow(Some(marker)))
            {
                let (name, url) = (name.clone(), url.clone());
                blockers.push(MoveBlocker::MarkedOtherwise { side, name, url });
            }
        }
        if !Stage::has_epochs(stamps[0].epoch, stamps[1].epoch) {
            blockers.push(MoveBlocker::NoEpochs);
        }
        blockers
    }

    /// Whether a move may begin, before anything of it is written.
    ///
    /// # Errors
    /// `Conflict` naming the first that is in the way. Where a marker of this move stands already, the gate
    /// lists who is outside, and takes it back.
    pub(super) async fn check_may_begin(&self) -> Result<()> {
        let (old, new) = (self.old.stamped().await?, self.new.stamped().await?);
        if let Some(blocker) = self.blocked_by([&old, &new]).into_iter().next() {
            return Err(blocker.into());
        }
        if old.marker.is_some() || new.marker.is_some() {
            return Ok(());
        }
        self.check_outsiders(MovePhase::Old).await?;
        self.values_against().await?.map_or(Ok(()), |blocker| Err(blocker.into()))
    }
}
