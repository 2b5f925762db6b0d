use std::fmt::Display;
use std::io::Write as _;

use super::script::Script;
use crate::layout::QueueKeys;

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

    /// The first argument is a test's time, or empty for the server's time.
    pub(super) fn timed(script: &'static Script, keys: impl IntoIterator<Item = impl Display>) -> Self {
        Self::new(script, keys).arg("")
    }

    pub(super) fn of_queue(script: &'static Script, queue: &QueueKeys) -> Self {
        Self::timed(script, queue.keys()).arg(queue.word())
    }

    #[cfg(test)]
    pub(crate) fn at(mut self, now: u64) -> Self {
        let now = now.to_string();
        self.args.text.splice(..0, now.bytes());
        self.args.ends.iter_mut().for_each(|end| *end += now.len());
        self
    }

    pub(super) fn arg(mut self, arg: impl Display) -> Self {
        self.args.push(arg);
        self
    }
}

/// One text, because a request has up to twenty words, and would allocate each. Values of cells are arbitrary
/// bytes.
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

    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().scan(0, |start, &end| Some(&self.text[std::mem::replace(start, end)..end]))
    }
}
