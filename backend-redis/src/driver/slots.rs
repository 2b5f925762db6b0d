use latchwork_core::{Error, ErrorKind, Result};

use crate::config::Host;
use crate::scripts::{Call, Reply};

pub(super) const SLOTS: usize = 16_384;

pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let tag = &key[open + 1..];
        let close = tag.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &tag[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS as u16
}

pub(super) fn slot_of_call(call: &Call) -> u16 {
    call.keys.iter().next().map_or(0, slot_of)
}

/// CRC-16/XMODEM, as in the cluster's specification.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: Host,
}

/// Parses the answer to `CLUSTER SLOTS` of the server at `asked`, which may omit its name.
pub(super) fn ranges(reply: Reply, asked: &Host) -> Result<Vec<Range>> {
    let malformed =
        || Error::new(ErrorKind::Misconfigured, "the server's answer to CLUSTER SLOTS is not valid");
    let Reply::List(ranges) = reply else { return Err(malformed()) };
    ranges.into_iter().map(|range| range_of(range, asked).ok_or_else(malformed)).collect()
}

fn range_of(range: Reply, asked: &Host) -> Option<Range> {
    let Reply::List(parts) = range else { return None };
    let mut parts = parts.into_iter();
    let mut slot = || match parts.next() {
        Some(Reply::Int(slot)) => u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < SLOTS),
        _ => None,
    };
    let (first, last) = (slot()?, slot()?);
    let Some(Reply::List(master)) = parts.next().filter(|_| first <= last) else { return None };
    let mut master = master.into_iter();
    let name = match master.next()? {
        Reply::Text(name) => String::from_utf8(name).ok()?,
        _ => String::new(),
    };
    let Some(Reply::Int(port)) = master.next() else { return None };
    // A cluster of host names shows a server without one as "?", with its address in the last field.
    let name = match name.as_str() {
        "?" => address(master.nth(1)).unwrap_or(name),
        _ => name,
    };
    Some(Range { first, last, master: asked.beside(&name, u16::try_from(port).ok()?) })
}

/// The IP address in the metadata of a server: names and values in turns.
fn address(metadata: Option<Reply>) -> Option<String> {
    let Reply::List(metadata) = metadata? else { return None };
    let mut parts = metadata.into_iter();
    while let (Some(Reply::Text(name)), Some(Reply::Text(value))) = (parts.next(), parts.next()) {
        if name == b"ip" {
            return String::from_utf8(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_slot_of_its_tag() {
        for (key, slot) in [("123456789", 12_739), ("foo", 12_182), ("{}x", 10_595), ("a{foo}b", 12_182)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"n:mutex:{foo}:"), slot_of(b"n:mutex:{foo}:one"));
    }

    #[test]
    fn a_server_without_a_name_is_the_one_that_was_asked() {
        let text = |text: &str| Reply::Text(text.into());
        let range = |name, first, last| {
            let master = Reply::List(vec![name, Reply::Int(7), text("id")]);
            Reply::List(vec![Reply::Int(first), Reply::Int(last), master, Reply::List(vec![])])
        };
        let asked = Host { name: "h".to_owned(), port: 1 };
        let reply = Reply::List(vec![range(text("a"), 0, 9), range(Reply::Nil, 10, 16_383)]);
        let names: Vec<_> =
            ranges(reply, &asked).unwrap().into_iter().map(|range| range.master.to_string()).collect();
        assert_eq!(names, ["a:7", "h:7"]);
        let master =
            vec![text("?"), Reply::Int(7), text("id"), Reply::List(vec![text("ip"), text("10.0.0.7")])];
        let named_by_address = Reply::List(vec![Reply::Int(0), Reply::Int(1), Reply::List(master)]);
        let ranges_of =
            |range| ranges(Reply::List(vec![range]), &asked).unwrap().remove(0).master.to_string();
        assert_eq!(ranges_of(named_by_address), "10.0.0.7:7");
        assert_eq!(ranges_of(range(text("?"), 0, 1)), "h:7", "a server that does not know its address");
        for (first, last) in [(0, 16_384), (-1, 3), (5, 4)] {
            assert!(
                ranges(Reply::List(vec![range(text("a"), first, last)]), &asked).is_err(),
                "{first} {last}"
            );
        }
    }
}
