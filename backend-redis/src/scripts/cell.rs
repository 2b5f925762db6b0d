use std::time::Duration;

use latchwork_core::backend::{CellWrite, CellWritten, NodeId, VersionedValue};
use latchwork_core::{CellLife, Expected, Result, TimeToIdle, Version};

use super::call::Call;
use super::cell_lives::millis;
use super::reply::{Fields, Flags, Reply, malformed};
use super::script::{READ_CELL, WRITE_CELL};
use crate::layout::{CellKey, QueueKeys};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) queue: &'a QueueKeys,
    pub(crate) id: NodeId,
    pub(crate) sequence: u64,
}

pub(crate) fn read_cell(cell: &CellKey) -> Call {
    Call::new(&READ_CELL, [cell])
}

pub(crate) fn cell_read(reply: Reply) -> Result<Option<VersionedValue>> {
    read(Fields::of(reply)?)
}

/// `nonce`: a number that no other write has. `ttl`: the TTL of an ephemeral cell.
pub(crate) fn write_cell(
    cell: &CellKey,
    write: &CellWrite,
    nonce: u64,
    ttl: Duration,
    holder: Option<Holder<'_>>,
) -> Call {
    let mut call = Call::new(&WRITE_CELL, [cell]);
    if let Some(holder) = holder {
        holder.queue.keys().for_each(|key| call.keys.push(key));
    }
    let expected = match write.expected {
        Expected::Any => "*".to_owned(),
        Expected::Absent => String::new(),
        Expected::Version(version) => text_of(version),
    };
    let operation = if write.value.is_some() { "w" } else { "d" };
    let mut call = call.arg(expected).arg(operation).arg(format_args!("{nonce:x}"));
    call.args.push_bytes(write.value.as_deref().unwrap_or_default());
    call = match write.life {
        CellLife::Stays => call.arg(""),
        CellLife::Lease => call.arg(millis(ttl)),
        CellLife::Idle(idle) => call.arg(format_args!("i{}", millis(idle.get()))),
    };
    match holder {
        Some(Holder { queue, id, sequence }) => call.arg(queue.word()).arg(id).arg(sequence),
        None => call,
    }
}

/// `None`: the holder's node is gone, and nothing was written.
pub(crate) fn cell_written(reply: Reply) -> Result<(Option<CellWritten>, Flags)> {
    let mut reply = Fields::of(reply)?;
    let (code, flags) = (reply.int()?, Flags(reply.int()?));
    let answer = match code {
        0 => None,
        1 => Some(CellWritten::Written(version_of(&reply.text()?)?)),
        2 => Some(CellWritten::Deleted { was_there: reply.int()? == 1 }),
        3 => Some(CellWritten::Refused(read(reply)?)),
        _ => return Err(malformed()),
    };
    Ok((answer, flags))
}

fn read(mut fields: Fields) -> Result<Option<VersionedValue>> {
    if fields.0.len() == 0 {
        return Ok(None);
    }
    let version = version_of(&fields.text()?)?;
    let mut cell = VersionedValue::new(version, fields.bytes()?);
    // A refusal has no time to idle.
    if fields.0.len() > 0 {
        let idle = Duration::from_millis(fields.text()?.parse().map_err(|_| malformed())?);
        // Another program may have written any time.
        cell.idle = TimeToIdle::new(idle).ok();
    }
    Ok(Some(cell))
}

/// The version's text on the server: the script compares texts.
fn text_of(version: Version) -> String {
    format!("{}-{:x}", version.number(), version.condition())
}

fn version_of(text: &str) -> Result<Version> {
    let (number, nonce) = text.split_once('-').ok_or_else(malformed)?;
    let number = number.parse().map_err(|_| malformed())?;
    let version = Version::new(number, u64::from_str_radix(nonce, 16).map_err(|_| malformed())?);
    // Otherwise no write could name this version.
    if text_of(version) == text { Ok(version) } else { Err(malformed()) }
}
