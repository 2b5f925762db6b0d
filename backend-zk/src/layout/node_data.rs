//! The data of a node: the owner's label, and behind it a mark or the writer's former numbers.

use latchwork_core::contracts::Entry;

/// Follows the label in a node that is marked as admitted (permits,  CHAIN-PERMITS-HEAD-AND-MARKS).
const ADMITTED: &[u8] = b"\0admitted";

/// Follows the label in a downgraded writer. The writer's sequence number and age come behind it.
const WRITER: &str = "\0writer";

/// What data and stat of a node say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeData {
    /// The contract's sequence number: the transaction that made the node, or the writer it was.
    pub(crate) sequence: u64,
    /// When it joined the queue, by the server's clock, in milliseconds.
    pub(crate) joined: i64,
    pub(crate) label: String,
}

impl NodeData {
    /// Reads a node's data. `czxid` and `ctime` are those of its stat.
    pub(crate) fn read(data: &[u8], czxid: i64, ctime: i64) -> Self {
        let (label, was) = match was_writer(data) {
            Some((label, sequence, joined)) => (label, Some((sequence, joined))),
            None => (data.strip_suffix(ADMITTED).unwrap_or(data), None),
        };
        let (sequence, joined) = was.unwrap_or((sequence(czxid), ctime));
        Self { sequence, joined, label: Entry::label_of(label) }
    }
}

/// The contract's sequence number of a node that was not downgraded.
pub(crate) fn sequence(czxid: i64) -> u64 {
    u64::try_from(czxid).unwrap_or(u64::MAX)
}

/// The data of a node that is marked as admitted.
pub(crate) fn admitted(label: &str) -> Vec<u8> {
    [label.as_bytes(), ADMITTED].concat()
}

/// Whether a node with these data is marked as admitted.
pub(crate) fn is_admitted(data: &[u8]) -> bool {
    data.ends_with(ADMITTED)
}

/// The data of a downgraded writer. Its own transaction is a later one, so the writer's is kept
/// here.
pub(crate) fn downgraded(label: &str, sequence: u64, joined: i64) -> Vec<u8> {
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

    #[test]
    fn data_read_back() {
        let read = |data: &[u8]| NodeData::read(data, 9, 90);
        let plain = NodeData { sequence: 9, joined: 90, label: "host:7".to_owned() };
        assert_eq!(read(b"host:7"), plain);
        assert_eq!(read(&admitted("host:7")), plain);
        assert!(is_admitted(&admitted("host:7")) && !is_admitted(b"host:7"));
        assert_eq!(read(&downgraded("host:7", 5, 50)), NodeData { sequence: 5, joined: 50, ..plain });
    }

    #[test]
    fn data_without_a_valid_mark_are_all_label() {
        for data in ["", "\0", "a\0b", "a\0writer", "a\0writer 5", "a\0writer 5 x", "a\0writer 5 6 7"] {
            let read = NodeData::read(data.as_bytes(), 9, 90);
            let shown = data.replace('\0', "\\u{0}");
            assert_eq!((read.sequence, read.joined, read.label), (9, 90, shown));
        }
    }
}
