//! What a node's data say: the owner's label, and behind it what became of the node.

use latchwork_core::contracts::Entry;

use crate::driver::Stat;

/// Stands behind the label in the data of a node that is marked as admitted (permits, RULES B6).
const ADMITTED: &[u8] = b"\0admitted";

/// Stands behind the label of a reader that was a writer; the writer's own numbers follow.
const WRITER: &str = "\0writer";

/// What data and stat of a node tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The contract's sequence number: the transaction that made the node, or the writer that it was.
    pub(crate) sequence: u64,
    /// When it joined the queue, by the server's clock, in milliseconds.
    pub(crate) joined: i64,
    pub(crate) label: String,
}

impl Told {
    pub(crate) fn read(data: &[u8], stat: &Stat) -> Self {
        let (label, was) = match was_writer(data) {
            Some((label, sequence, joined)) => (label, Some((sequence, joined))),
            None => (data.strip_suffix(ADMITTED).unwrap_or(data), None),
        };
        let (sequence, joined) = was.unwrap_or((sequence(stat), stat.ctime));
        Self { sequence, joined, label: Entry::label_of(label) }
    }
}

/// The contract's sequence number of a node that is what it was made as.
pub(crate) fn sequence(stat: &Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(u64::MAX)
}

/// The data of a node that is marked as admitted.
pub(crate) fn admitted(label: &str) -> Vec<u8> {
    [label.as_bytes(), ADMITTED].concat()
}

/// Whether a node of these data is marked as admitted.
pub(crate) fn is_admitted(data: &[u8]) -> bool {
    data.ends_with(ADMITTED)
}

/// The data of a reader that was a writer: its transaction is a later one, so the writer's is kept here.
pub(crate) fn turned(label: &str, sequence: u64, joined: i64) -> Vec<u8> {
    format!("{label}{WRITER} {sequence} {joined}").into_bytes()
}

fn was_writer(data: &[u8]) -> Option<(&[u8], u64, i64)> {
    let at = data.iter().rposition(|&byte| byte == 0)?;
    let mut words = std::str::from_utf8(&data[at..]).ok()?.strip_prefix(WRITER)?.split(' ').skip(1);
    let (sequence, joined) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some((&data[..at], sequence, joined))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: Stat = Stat { czxid: 9, mzxid: 9, owner: 1, ctime: 90, mtime: 91 };

    #[test]
    fn what_was_written_reads_back() {
        let told = |data: &[u8]| Told::read(data, &STAT);
        let plain = Told { sequence: 9, joined: 90, label: "host:7".to_owned() };
        assert_eq!(told(b"host:7"), plain);
        assert_eq!(told(&admitted("host:7")), plain);
        assert!(is_admitted(&admitted("host:7")) && !is_admitted(b"host:7"));
        assert_eq!(told(&turned("host:7", 5, 50)), Told { sequence: 5, joined: 50, ..plain });
    }

    #[test]
    fn what_is_no_tag_is_label() {
        for data in ["", "\0", "a\0b", "a\0writer", "a\0writer 5", "a\0writer 5 x", "a\0writer 5 6 7"] {
            let told = Told::read(data.as_bytes(), &STAT);
            let shown = data.replace('\0', "\\u{0}");
            assert_eq!((told.sequence, told.joined, told.label), (9, 90, shown));
        }
    }
}
