//! A call of a script.

use std::fmt::Display;
use std::io::Write as _;

use super::script::Script;

/// One invocation.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) keys: Words,
    pub(crate) args: Words,
}

impl Call {
    pub(super) fn new(script: &'static Script, keys: impl IntoIterator<Item = impl Display>) -> Self {
        let mut call = Self { script, keys: Words::sized(6, 300), args: Words::sized(10, 200) };
        keys.into_iter().for_each(|key| call.keys.push(key));
        call
    }

    pub(super) fn arg(mut self, arg: impl Display) -> Self {
        self.args.push(arg);
        self
    }
}

/// Words in one text: each request has up to twenty of them, and would allocate each. Values of cells
/// are any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    fn sized(words: usize, bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    pub(super) fn push(&mut self, word: impl Display) {
        write!(self.text, "{word}").expect("writing to a Vec never fails");
        self.ends.push(self.text.len());
    }

    pub(super) fn push_bytes(&mut self, word: &[u8]) {
        self.text.extend_from_slice(word);
        self.ends.push(self.text.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all words together.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().scan(0, |start, &end| Some(&self.text[std::mem::replace(start, end)..end]))
    }
}

/// Replaces the server's time. Only the tests set it, which run histories against a model.
pub(crate) type TimeOverride = Option<u64>;

pub(super) fn time_word(time: TimeOverride) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}
