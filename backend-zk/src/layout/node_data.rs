//! The bytes of a node: the owner's label, the node's data, then a mark or the former numbers of a downgraded
//! writer.
//!
//! | what | bytes |
//! |---|---|
//! | label | unchanged; it contains no NUL |
//! | data, if the node has any | `\0data <length> ` and the data unchanged |
//! | a mark, of admitted permits | `\0admitted` |
//! | the numbers of a downgraded writer | `\0writer <sequence> <joined>` |
//!
//! At an exact address, an election's node contains only the data, as with `LeaderLatch`. It is never marked
//! or downgraded.

use std::sync::Arc;

use latchwork_core::backend::QueueEntry;

const DATA: &[u8] = b"\0data ";

const ADMITTED: &[u8] = b"\0admitted";

/// The writer's sequence number and join time follow.
const WRITER: &str = "\0writer";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataLayout {
    Ours,
    Bare,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeData {
    /// The transaction that created the node, or the writer before a downgrade.
    pub(crate) sequence: u64,
    pub(crate) joined: i64,
    pub(crate) label: String,
    pub(crate) data: Arc<[u8]>,
}

impl NodeData {
    pub(crate) fn read(layout: DataLayout, bytes: &[u8], czxid: i64, ctime: i64) -> Self {
        if layout == DataLayout::Bare {
            let (label, data) = (QueueEntry::label_of(bytes), bytes.into());
            return Self { sequence: sequence(czxid), joined: ctime, label, data };
        }
        let Parts { label, data, end } = Parts::of(bytes);
        let (sequence, joined) = match end {
            End::Writer(sequence, joined) => (sequence, joined),
            End::Plain | End::Admitted => (sequence(czxid), ctime),
        };
        Self { sequence, joined, label: QueueEntry::label_of(label), data: data.into() }
    }
}

pub(crate) fn sequence(czxid: i64) -> u64 {
    u64::try_from(czxid).unwrap_or(u64::MAX)
}

pub(crate) fn plain(layout: DataLayout, label: &str, data: &[u8]) -> Vec<u8> {
    match layout {
        DataLayout::Bare => data.to_vec(),
        DataLayout::Ours if data.is_empty() => label.as_bytes().to_vec(),
        DataLayout::Ours => {
            let length = data.len().to_string();
            [label.as_bytes(), DATA, length.as_bytes(), b" ", data].concat()
        }
    }
}

pub(crate) fn admitted(label: &str, data: &[u8]) -> Vec<u8> {
    [&plain(DataLayout::Ours, label, data), ADMITTED].concat()
}

/// Keeps the numbers of the writer: the reader's node has a later transaction.
pub(crate) fn downgraded(label: &str, data: &[u8], sequence: u64, joined: i64) -> Vec<u8> {
    let numbers = format!("{WRITER} {sequence} {joined}");
    [&plain(DataLayout::Ours, label, data), numbers.as_bytes()].concat()
}

pub(crate) fn is_admitted(bytes: &[u8]) -> bool {
    Parts::of(bytes).end == End::Admitted
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Plain,
    Admitted,
    Writer(u64, i64),
}

impl End {
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            b"" => Some(End::Plain),
            ADMITTED => Some(End::Admitted),
            _ => {
                let mut words = std::str::from_utf8(bytes).ok()?.strip_prefix(WRITER)?.split(' ').skip(1);
                let (sequence, joined) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                words.next().is_none().then_some(End::Writer(sequence, joined))
            }
        }
    }
}

struct Parts<'a> {
    label: &'a [u8],
    data: &'a [u8],
    end: End,
}

impl<'a> Parts<'a> {
    /// Parts that are not well-formed count as label.
    fn of(bytes: &'a [u8]) -> Self {
        Self::with_data(bytes).unwrap_or_else(|| Self::without_data(bytes))
    }

    /// The length precedes the data, so these can contain any bytes.
    fn with_data(bytes: &'a [u8]) -> Option<Self> {
        let (label, rest) = bytes.split_at(bytes.iter().position(|&byte| byte == 0)?);
        let rest = rest.strip_prefix(DATA)?;
        let (length, rest) = rest.split_at(rest.iter().position(|&byte| byte == b' ')?);
        let length = std::str::from_utf8(length).ok()?.parse().ok()?;
        let (data, end) = rest[1..].split_at_checked(length)?;
        Some(Self { label, data, end: End::of(end)? })
    }

    fn without_data(bytes: &'a [u8]) -> Self {
        let at = bytes.iter().rposition(|&byte| byte == 0).unwrap_or(bytes.len());
        let (label, end) = bytes.split_at(at);
        match End::of(end) {
            Some(end) => Self { label, data: &[], end },
            None => Self { label: bytes, data: &[], end: End::Plain },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DataLayout::{Bare, Ours};
    use super::*;

    #[test]
    fn node_data_reads_back_with_any_bytes() {
        let read = |bytes: &[u8]| NodeData::read(Ours, bytes, 9, 90);
        for data in
            [&b""[..], b"x", b"\0", b"a\0admitted", b"\0writer 5 6", b"\0data 1 x", b" 7 ", &[255; 4096]]
        {
            let plain_data =
                NodeData { sequence: 9, joined: 90, label: "host:7".to_owned(), data: data.into() };
            let bytes = plain(Ours, "host:7", data);
            assert_eq!((read(&bytes), is_admitted(&bytes)), (plain_data.clone(), false));
            let marked = admitted("host:7", data);
            assert_eq!((read(&marked), is_admitted(&marked)), (plain_data.clone(), true));
            let reader = downgraded("host:7", data, 5, 50);
            assert_eq!(read(&reader), NodeData { sequence: 5, joined: 50, ..plain_data });
        }
    }

    #[test]
    fn node_without_data_keeps_its_earlier_layout() {
        assert_eq!(plain(Ours, "host:7", b""), b"host:7");
        assert_eq!(admitted("host:7", b""), b"host:7\0admitted");
        assert_eq!(downgraded("host:7", b"", 5, 50), b"host:7\0writer 5 50");
    }

    #[test]
    fn bare_data_are_all_that_a_node_holds_and_its_label() {
        for data in ["id-1", "", "a\0admitted", "a\0data 1 x"] {
            assert_eq!(plain(Bare, "host:7", data.as_bytes()), data.as_bytes());
            let read = NodeData::read(Bare, data.as_bytes(), 9, 90);
            assert_eq!((&*read.data, read.label), (data.as_bytes(), data.replace('\0', "\\u{0}")));
        }
    }

    #[test]
    fn malformed_node_data_is_read_as_a_label() {
        for bytes in [
            "",
            "\0",
            "a\0b",
            "a\0writer",
            "a\0writer 5",
            "a\0writer 5 x",
            "a\0writer 5 6 7",
            "a\0data",
            "a\0data ",
            "a\0data 1",
            "a\0data 1 ",
            "a\0data x y",
            "a\0data 1 xy",
            "a\0data 99999999999999999999 x",
        ] {
            let read = NodeData::read(Ours, bytes.as_bytes(), 9, 90);
            let shown = bytes.replace('\0', "\\u{0}");
            assert_eq!((read.sequence, read.joined, read.label, &*read.data), (9, 90, shown, &b""[..]));
        }
    }
}
