//! The rule for a server that may have forgotten confirmed data: it counts again when every hold that it may
//! have forgotten has ended, after the longest TTL of any client (QUORUM-AMNESIA). `docs/protocol/quorum.md` has
//! the protocol of the [`Marker`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::address::encode;
use crate::clock::Moment;

/// The settings that all clients of a quorum must share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The longest TTL of any client.
    pub longest_ttl: Duration,
    // Names in canonical order, encoded.
    members: String,
}

impl Terms {
    /// Creates the terms of members in canonical order. The TTL is rounded up to milliseconds.
    pub fn new<'a>(longest_ttl: Duration, members: impl IntoIterator<Item = &'a str>) -> Self {
        let members: Vec<_> = members.into_iter().map(encode).collect();
        let millis = longest_ttl.as_nanos().div_ceil(1_000_000);
        let longest_ttl = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        Self { longest_ttl, members: members.join(",") }
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ttl={} members={}", self.longest_ttl.as_millis(), self.members)
    }
}

/// The marker that shows whether a server may have forgotten holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The settings that all clients must share.
    pub terms: Terms,
    /// The server's encoded incarnation, if the next one may have forgotten holds.
    pub server: Option<String>,
    /// A random number, different for successive markers.
    pub id: u64,
    /// Whether every hold that the server may have forgotten has ended.
    pub ripe: bool,
}

impl Marker {
    /// Creates a marker.
    pub fn new(terms: &Terms, server: Option<&str>, id: u64, ripe: bool) -> Self {
        Self { terms: terms.clone(), server: server.map(encode), id, ripe }
    }

    fn is_of(&self, server: Option<&str>) -> bool {
        self.server == server.map(encode)
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { terms, server, id, ripe } = self;
        let server = server.as_deref().unwrap_or_default();
        write!(f, "quorum id={id:x} ripe={ripe} server={server} {terms}")
    }
}

/// The error for a text that is not a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMarker;

impl FromStr for Marker {
    type Err = NoMarker;

    fn from_str(text: &str) -> Result<Self, NoMarker> {
        let mut fields = text.strip_prefix("quorum ").ok_or(NoMarker)?.split(' ');
        let mut field = |name: &str| {
            let (found, value) = fields.next()?.split_once('=')?;
            (found == name).then_some(value)
        };
        let id = field("id").and_then(|id| u64::from_str_radix(id, 16).ok()).ok_or(NoMarker)?;
        let ripe = field("ripe").and_then(|ripe| ripe.parse().ok()).ok_or(NoMarker)?;
        let server = field("server").ok_or(NoMarker)?;
        let ttl = field("ttl").and_then(|ttl| ttl.parse().ok()).ok_or(NoMarker)?;
        let members = field("members").ok_or(NoMarker)?.to_owned();
        let terms = Terms { longest_ttl: Duration::from_millis(ttl), members };
        let server = (!server.is_empty()).then(|| server.to_owned());
        Ok(Self { terms, server, id, ripe })
    }
}

/// The conclusion from a server's marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server counts.
    Counts,
    /// Write this marker over the one that was read.
    Write(Marker),
    /// The server does not count before this instant.
    NotBefore(Moment),
    /// Other clients use other terms.
    Conflict,
}

/// One client's observations of one server's marker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trial {
    // The last unripe marker, and since when.
    seen: Option<(u64, Moment)>,
}

impl Trial {
    /// Judges a server by its incarnation and its marker. `now` is an instant after the read, and `id` the
    /// number of a new marker.
    pub fn judge(
        &mut self,
        terms: &Terms,
        server: Option<&str>,
        marker: Option<&Marker>,
        now: Moment,
        id: u64,
    ) -> Verdict {
        let Some(marker) = marker else { return Verdict::Write(Marker::new(terms, server, id, false)) };
        if marker.terms != *terms {
            return Verdict::Conflict;
        }
        if !marker.is_of(server) {
            return Verdict::Write(Marker::new(terms, server, id, false));
        }
        if marker.ripe {
            return Verdict::Counts;
        }
        let since = self.since(marker.id, now);
        match since + terms.longest_ttl {
            ripe_at if now < ripe_at => Verdict::NotBefore(ripe_at),
            _ => Verdict::Write(Marker { ripe: true, ..marker.clone() }),
        }
    }

    fn since(&mut self, id: u64, now: Moment) -> Moment {
        match self.seen {
            Some((seen, since)) if seen == id => since,
            _ => {
                self.seen = Some((id, now));
                now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn terms() -> Terms {
        Terms::new(TTL, ["a", "b c", "d"])
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_marker_is_read_as_it_was_written_and_nothing_else_is_one() {
        for server in [None, Some("a run id")] {
            let marker = Marker::new(&terms(), server, u64::MAX, true);
            assert_eq!(marker.to_string().parse(), Ok(marker));
        }
        for text in
            ["", "quorum", "7", "quorum id=1 ripe=true server= ttl=x members=a", "quorum ripe=true id=1"]
        {
            assert_eq!(text.parse::<Marker>(), Err(NoMarker), "{text:?}");
        }
    }

    #[test]
    fn a_server_without_a_marker_counts_after_the_longest_ttl() {
        let (terms, mut trial) = (terms(), Trial::default());
        let unripe = Marker::new(&terms, None, 1, false);
        assert_eq!(trial.judge(&terms, None, None, at(3), 1), Verdict::Write(unripe.clone()));
        assert_eq!(trial.judge(&terms, None, Some(&unripe), at(4), 2), Verdict::NotBefore(at(14)));
        assert_eq!(trial.judge(&terms, None, Some(&unripe), at(13), 2), Verdict::NotBefore(at(14)));
        let ripe = Marker { ripe: true, ..unripe };
        let unripe = Marker { ripe: false, ..ripe.clone() };
        assert_eq!(trial.judge(&terms, None, Some(&unripe), at(14), 2), Verdict::Write(ripe.clone()));
        assert_eq!(Trial::default().judge(&terms, None, Some(&ripe), at(14), 2), Verdict::Counts);
    }

    #[test]
    fn another_marker_restarts_the_waiting_time() {
        let (terms, mut trial) = (terms(), Trial::default());
        let unripe = |id| Marker::new(&terms, None, id, false);
        assert_eq!(trial.judge(&terms, None, Some(&unripe(1)), at(0), 9), Verdict::NotBefore(at(10)));
        assert_eq!(trial.judge(&terms, None, Some(&unripe(2)), at(10), 9), Verdict::NotBefore(at(20)));
    }

    #[test]
    fn a_marker_of_another_incarnation_is_replaced_and_other_terms_are_a_conflict() {
        let (terms, mut trial) = (terms(), Trial::default());
        let ripe = Marker::new(&terms, Some("one"), 1, true);
        assert_eq!(trial.judge(&terms, Some("one"), Some(&ripe), at(0), 2), Verdict::Counts);
        let unripe = Marker::new(&terms, Some("two"), 2, false);
        assert_eq!(trial.judge(&terms, Some("two"), Some(&ripe), at(0), 2), Verdict::Write(unripe));
        for other in [Terms::new(2 * TTL, ["a", "b c", "d"]), Terms::new(TTL, ["a", "b", "c", "d"])] {
            assert_eq!(trial.judge(&other, Some("one"), Some(&ripe), at(0), 2), Verdict::Conflict);
        }
    }
}
