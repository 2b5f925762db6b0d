use latchwork_core::{Error, ErrorKind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Reply>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(super) i64);

impl Flags {
    /// More nodes may have expired, or need a message, than one call handles.
    pub(crate) fn more(self) -> bool {
        self.0 & 1 != 0
    }

    pub(crate) fn publish_refused(self) -> bool {
        self.0 & 2 != 0
    }
}

/// Microseconds.
pub(crate) type ServerTime = i64;

pub(super) struct Fields(pub(super) std::vec::IntoIter<Reply>);

impl Fields {
    pub(super) fn of(reply: Reply) -> Result<Self> {
        match reply {
            Reply::List(fields) => Ok(Self(fields.into_iter())),
            _ => Err(malformed()),
        }
    }

    pub(super) fn next(&mut self) -> Result<Reply> {
        self.0.next().ok_or_else(malformed)
    }

    pub(super) fn int(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(Reply::Int(value)) => Ok(value),
            _ => Err(malformed()),
        }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.0.next() {
            Some(Reply::Text(text)) => Ok(text),
            _ => Err(malformed()),
        }
    }
}

pub(crate) fn bools(reply: Reply) -> Result<Vec<bool>> {
    let answer = |answer| if let Reply::Int(answer) = answer { Ok(answer == 1) } else { Err(malformed()) };
    Fields::of(reply)?.0.map(answer).collect()
}

pub(super) fn unsigned(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| malformed())
}

pub(super) fn malformed() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        "the server's answer does not match the script: check that the server is Redis or Valkey, and that no proxy changes answers",
    )
}
