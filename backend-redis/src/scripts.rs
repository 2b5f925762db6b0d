//! The scripts: what each is asked and what it answers, as types. The protocol itself is in `scripts/*.lua`.

use latchwork_core::contracts::{AskedLimit, Entry, Join, NodeId, Patience, StoredLimit};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind, Result};
use std::fmt::{Display, Write as _};
use std::sync::LazyLock;
use std::time::Duration;

use crate::inbox::Secret;
use crate::layout::Queue;

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    text: LazyLock<String>,
}

impl Script {
    /// What the server gets: without the comments and the indentation, which are half of it.
    pub(crate) fn text(&'static self) -> &'static str {
        &self.text
    }
}

fn without_comments(code: &str) -> String {
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Those with a `short` way try that first, before the functions of the long one are even defined.
macro_rules! script {
    ($name:literal) => {
        script!($name, concat!(include_str!("scripts/one.lua"), include_str!("scripts/queue.lua")))
    };
    ($name:literal, short) => {
        script!(
            $name,
            concat!(
                include_str!("scripts/one.lua"),
                include_str!(concat!("scripts/one/", $name, ".lua")),
                include_str!("scripts/queue.lua")
            )
        )
    };
    ($name:literal, $before:expr) => {{
        const CODE: &str = concat!($before, include_str!(concat!("scripts/", $name, ".lua")));
        Script { name: $name, text: LazyLock::new(|| without_comments(CODE)) }
    }};
}

pub(crate) static JOIN: Script = script!("join", short);
pub(crate) static RENEW: Script = script!("renew");
pub(crate) static LEAVE: Script = script!("leave", short);
pub(crate) static ABANDON: Script = script!("abandon");
pub(crate) static LIST: Script = script!("list", short);
pub(crate) static DOWNGRADE: Script = script!("downgrade");
pub(crate) static SET_LIMIT: Script = script!("set_limit");
pub(crate) static REVOKE: Script = script!("revoke");
pub(crate) static LIMIT: Script = script!("limit", include_str!("scripts/one.lua"));
pub(crate) static SELFTEST: Script = script!("selftest", "");

pub(crate) static ALL: [&Script; 10] =
    [&JOIN, &RENEW, &LEAVE, &ABANDON, &LIST, &DOWNGRADE, &SET_LIMIT, &REVOKE, &LIMIT, &SELFTEST];

/// What every hold needs, and so is on the server when a client is connected.
pub(crate) static LOADED: [&Script; 3] = [&JOIN, &RENEW, &LEAVE];

/// One invocation.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) keys: Words,
    pub(crate) args: Words,
}

impl Call {
    fn new(script: &'static Script, keys: impl IntoIterator<Item = impl Display>) -> Self {
        let mut call = Self { script, keys: Words::sized(6, 300), args: Words::sized(10, 200) };
        keys.into_iter().for_each(|key| call.keys.push(key));
        call
    }

    fn arg(mut self, arg: impl Display) -> Self {
        self.args.push(arg);
        self
    }
}

/// Words in one text: an invocation has up to twenty, and is made for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    text: String,
    ends: Vec<usize>,
}

impl Words {
    fn sized(words: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    fn push(&mut self, word: impl Display) {
        write!(self.text, "{word}").expect("a String takes all that there is room for");
        self.ends.push(self.text.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all of them.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.ends.iter().scan(0, |start, &end| Some(&self.text[std::mem::replace(start, end)..end]))
    }
}

/// A reply, free of the client crate's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Reply>),
}

/// What every script answers beside its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(i64);

impl Flags {
    /// More may have expired, or may have to be told, than one call looks at.
    pub(crate) fn more(self) -> bool {
        self.0 & 1 != 0
    }

    /// A PUBLISH was refused.
    pub(crate) fn untold(self) -> bool {
        self.0 & 2 != 0
    }
}

/// The server's time in a reply, in microseconds.
pub(crate) type ServerTime = i64;

/// Overrides the server's time: for the test that feeds histories to the scripts and to their twin in core.
pub(crate) type Now = Option<u64>;

fn now(now: Now) -> String {
    now.map(|now| now.to_string()).unwrap_or_default()
}

/// The outcome of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JoinAnswer {
    Admitted { sequence: u64 },
    Waiting { sequence: u64, ahead: Duration },
    Refused,
    Abandoned,
    Conflict { stored: StoredLimit },
}

/// Where a renewed node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RenewAnswer {
    Gone,
    Held,
    /// What it waits for expires so long from now.
    Waiting {
        ahead: Duration,
    },
    /// It waits, and what is stored as the limit does not let it in.
    Unfit {
        stored: StoredLimit,
    },
    /// It is there, and where it stands is not known before the queue is mended.
    Unsettled,
}

/// What [`RenewAnswer::Unsettled`] is in a reply.
const UNSETTLED: i64 = -(1 << 40);

/// `secret`: what only this client and those who can read the queue know of the node. Whoever tells of its admission names it.
pub(crate) fn join(
    queue: &Queue,
    join: &Join,
    ttl: Duration,
    (secret, inbox): (Secret, &str),
    time: Now,
) -> Call {
    let (claim, weight) = match join.claim {
        Claim::Exclusive => ("x", 1),
        Claim::Shared => ("s", 1),
        Claim::Permits(weight) => ("p", weight),
    };
    Call::new(&JOIN, queue.keys().chain([queue.left()]))
        .arg(now(time))
        .arg(queue.shape.letter())
        .arg(join.id)
        .arg(claim)
        .arg(weight)
        .arg(ttl.as_micros())
        .arg(match join.limit {
            AskedLimit::Exactly(limit) => limit.to_string(),
            AskedLimit::UnlessStored(limit) => format!("~{limit}"),
            AskedLimit::Stored => String::new(),
        })
        .arg(format_args!("{secret}@{inbox}"))
        .arg(&join.label)
        .arg(u8::from(join.patience == Patience::Try))
}

pub(crate) fn joined(reply: Reply) -> Result<(JoinAnswer, Flags, ServerTime)> {
    let mut reply = Fields::of(reply)?;
    let (code, a, b) = (reply.int()?, reply.next()?, reply.int()?);
    let answer = match (code, a) {
        (1, Reply::Int(a)) => JoinAnswer::Admitted { sequence: unsigned(a)? },
        (2, Reply::Int(a)) => {
            JoinAnswer::Waiting { sequence: unsigned(a)?, ahead: Duration::from_micros(unsigned(b)?) }
        }
        (0, _) => JoinAnswer::Refused,
        (-1, _) => JoinAnswer::Abandoned,
        (-2, stored) => JoinAnswer::Conflict { stored: stored_limit(stored)? },
        _ => return Err(malformed()),
    };
    Ok((answer, Flags(reply.int()?), reply.int()?))
}

/// Renews nodes, grouped by queue. A queue without a node is only swept: what has expired is dropped, who is
/// next is admitted and told.
pub(crate) fn renew<'a>(
    groups: impl IntoIterator<Item = (&'a Queue, Vec<(NodeId, u64)>)>,
    ttl: Duration,
    time: Now,
) -> Call {
    let mut call = Call::new(&RENEW, None::<&str>).arg(now(time)).arg(ttl.as_micros());
    for (queue, nodes) in groups {
        queue.keys().for_each(|key| call.keys.push(key));
        call = call.arg(queue.shape.letter()).arg(nodes.len());
        for (id, sequence) in nodes {
            call = call.arg(id).arg(sequence);
        }
    }
    call
}

/// Per queue its flags and nodes, or why the server refused that queue.
pub(crate) type Renewed = Vec<std::result::Result<(Flags, Vec<RenewAnswer>), String>>;

pub(crate) fn renewed(reply: Reply) -> Result<(ServerTime, Renewed)> {
    let mut reply = Fields::of(reply)?;
    let time = reply.int()?;
    let mut queues = Vec::new();
    for queue in reply.0 {
        queues.push(match queue {
            Reply::Text(error) => Err(String::from_utf8_lossy(&error).into_owned()),
            queue => {
                let mut fields = Fields::of(queue)?;
                let flags = Flags(fields.int()?);
                let nodes = fields.0.map(renew_answer).collect::<Result<_>>()?;
                Ok((flags, nodes))
            }
        });
    }
    Ok((time, queues))
}

fn renew_answer(reply: Reply) -> Result<RenewAnswer> {
    match reply {
        Reply::Int(-1) => Ok(RenewAnswer::Gone),
        Reply::Int(0) => Ok(RenewAnswer::Held),
        Reply::Int(UNSETTLED) => Ok(RenewAnswer::Unsettled),
        Reply::Int(-2) => Ok(RenewAnswer::Unfit { stored: StoredLimit::Absent }),
        Reply::Int(below @ ..-2) => {
            let limit = u32::try_from((-2_i64).saturating_sub(below)).map_err(|_| malformed())?;
            Ok(RenewAnswer::Unfit { stored: StoredLimit::Permits(limit) })
        }
        Reply::Text(foreign) => Ok(RenewAnswer::Unfit { stored: StoredLimit::foreign(&foreign) }),
        Reply::Int(wait) => {
            Ok(RenewAnswer::Waiting { ahead: Duration::from_micros(unsigned(wait)?.saturating_sub(1)) })
        }
        _ => Err(malformed()),
    }
}

pub(crate) fn leave(queue: &Queue, id: NodeId, sequence: u64, time: Now) -> Call {
    Call::new(&LEAVE, queue.keys()).arg(now(time)).arg(queue.shape.letter()).arg(id).arg(sequence)
}

pub(crate) fn abandon(queue: &Queue, id: NodeId, stands: Duration, time: Now) -> Call {
    Call::new(&ABANDON, queue.keys().chain([queue.left()]))
        .arg(now(time))
        .arg(queue.shape.letter())
        .arg(id)
        .arg(stands.as_micros())
}

pub(crate) fn downgrade(queue: &Queue, id: NodeId, sequence: u64, time: Now) -> Call {
    Call::new(&DOWNGRADE, queue.keys()).arg(now(time)).arg(id).arg(sequence)
}

pub(crate) fn revoke(queue: &Queue, sequence: u64, time: Now) -> Call {
    Call::new(&REVOKE, queue.keys()).arg(now(time)).arg(queue.shape.letter()).arg(sequence)
}

/// The answer of leave, abandon, downgrade and revoke: whether the node was there (and is a reader now).
pub(crate) fn left(reply: Reply) -> Result<(bool, Flags)> {
    let mut reply = Fields::of(reply)?;
    Ok((reply.int()? == 1, Flags(reply.int()?)))
}

pub(crate) fn set_limit(queue: &Queue, limit: u32, time: Now) -> Call {
    Call::new(&SET_LIMIT, queue.keys()).arg(now(time)).arg(limit)
}

pub(crate) fn limit_set(reply: Reply) -> Result<Flags> {
    Fields::of(reply)?.int().map(Flags)
}

pub(crate) fn limit(queue: &Queue) -> Call {
    Call::new(&LIMIT, queue.keys().last())
}

pub(crate) fn stored_limit(reply: Reply) -> Result<StoredLimit> {
    match reply {
        Reply::Int(-1) => Ok(StoredLimit::Absent),
        Reply::Int(limit) => u32::try_from(limit).map(StoredLimit::Permits).map_err(|_| malformed()),
        Reply::Text(foreign) => Ok(StoredLimit::foreign(&foreign)),
        _ => Err(malformed()),
    }
}

pub(crate) fn list(queue: &Queue, after: u64, most: usize, time: Now) -> Call {
    Call::new(&LIST, queue.keys()).arg(now(time)).arg(queue.shape.letter()).arg(after).arg(most)
}

pub(crate) fn listed(reply: Reply) -> Result<(Flags, Vec<Entry>)> {
    let mut reply = Fields::of(reply)?;
    let (flags, now) = (Flags(reply.int()?), reply.int()?);
    let entries = reply.0.map(|entry| {
        let mut entry = Fields::of(entry)?;
        let (sequence, claim, weight) = (unsigned(entry.int()?)?, entry.text()?, entry.int()?);
        let admitted = entry.int()? == 1;
        let age = u64::try_from(now.saturating_sub(entry.int()?)).ok().map(Duration::from_micros);
        let claim = match claim.as_str() {
            "x" => Claim::Exclusive,
            "s" => Claim::Shared,
            "p" => Claim::Permits(u32::try_from(weight).map_err(|_| malformed())?),
            _ => return Err(malformed()),
        };
        Ok(Entry { sequence, claim, admitted, label: Entry::label_of(&entry.bytes()?), age })
    });
    Ok((flags, entries.collect::<Result<_>>()?))
}

pub(crate) fn selftest(keys: [String; 3], inbox: &str) -> Call {
    Call::new(&SELFTEST, keys).arg(inbox)
}

/// The command that the self-test could not use, and the server's words.
pub(crate) fn selftested(reply: Reply) -> Result<Option<(String, String)>> {
    match reply {
        Reply::List(list) if list.is_empty() => Ok(None),
        reply => {
            let mut reply = Fields::of(reply)?;
            Ok(Some((reply.text()?, reply.text()?)))
        }
    }
}

struct Fields(std::vec::IntoIter<Reply>);

impl Fields {
    fn of(reply: Reply) -> Result<Self> {
        match reply {
            Reply::List(fields) => Ok(Self(fields.into_iter())),
            _ => Err(malformed()),
        }
    }

    fn next(&mut self) -> Result<Reply> {
        self.0.next().ok_or_else(malformed)
    }

    fn int(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(Reply::Int(value)) => Ok(value),
            _ => Err(malformed()),
        }
    }

    fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.0.next() {
            Some(Reply::Text(text)) => Ok(text),
            _ => Err(malformed()),
        }
    }
}

fn unsigned(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| malformed())
}

fn malformed() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        "the server answered a script with something else than the script says",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::TOMBSTONE;

    #[test]
    fn scripts_and_clients_agree_on_how_long_a_tombstone_stands() {
        let stands = format!("local STAND = {} * 1000000\n", TOMBSTONE.as_secs());
        assert!(LEAVE.text().contains(&stands), "{stands}");
    }
}
