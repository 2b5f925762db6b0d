//! A bound on the size of a reply. The client crate believes announced lengths: a bulk of 1 GB costs the
//! process 2.1 GB.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// In one reply or message. The largest answer to a script is a page of a listing: 500 labels of 4 KiB.
const MOST_BYTES: u64 = 16 << 20;
/// In one reply. A value may take only three bytes, but more of the client's memory.
const MOST_VALUES: u64 = 1 << 16;
const MOST_DEPTH: usize = 32;
const LONGEST_LENGTH: usize = 24;

#[derive(Debug)]
pub(super) struct BoundedStream<S> {
    stream: S,
    frames: Frames,
}

impl<S> BoundedStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, frames: Frames::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = self.frames.read(&buffer.filled()[before..]);
        Poll::Ready(read.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[derive(Debug, Default)]
struct Frames {
    // For each level the missing values, and whether it is an attribute, which a value follows.
    open: Vec<(u64, bool)>,
    line: Vec<u8>,
    skip: u64,
    bytes: u64,
    values: u64,
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            let passed = if self.skip > 0 {
                let passed = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                self.skip -= passed as u64;
                self.count(passed)?;
                if self.skip == 0 {
                    self.end_of_value();
                }
                passed
            } else {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let passed = end.map_or(bytes.len(), |end| end + 1);
                let room = (LONGEST_LENGTH + 1).saturating_sub(self.line.len());
                self.line.extend_from_slice(&bytes[..passed.min(room)]);
                self.count(passed)?;
                if end.is_some() {
                    self.end_of_line()?;
                }
                passed
            };
            bytes = &bytes[passed..];
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.bytes += bytes as u64;
        if self.bytes.saturating_add(self.skip) > MOST_BYTES {
            Err("a reply of more than 16 MiB")
        } else {
            Ok(())
        }
    }

    fn end_of_line(&mut self) -> Result<(), &'static str> {
        let line = std::mem::take(&mut self.line);
        let (kind, each) = match line.first() {
            Some(b'$' | b'=' | b'!') => (b'$', 1),
            Some(b'*' | b'~' | b'>') => (b'*', 1),
            Some(b'%') => (b'*', 2),
            Some(b'|') => (b'|', 2),
            _ => {
                self.end_of_value();
                return Ok(());
            }
        };
        let digits = std::str::from_utf8(&line[1..]).ok().map(str::trim_end);
        let length: i64 =
            digits.and_then(|digits| digits.parse().ok()).ok_or("a length that is not a number")?;
        let Ok(length) = u64::try_from(length) else {
            self.end_of_value();
            return Ok(());
        };
        if kind == b'$' {
            self.skip = length.saturating_add(2);
            return self.count(0);
        }
        let values = length.saturating_mul(each);
        self.values = self.values.saturating_add(values);
        if self.values > MOST_VALUES {
            return Err("a reply of more than 65,536 values");
        }
        match (values, kind) {
            (0, b'|') => {}
            (0, _) => self.end_of_value(),
            _ if self.open.len() == MOST_DEPTH => return Err("a reply that is nested too deeply"),
            _ => self.open.push((values, kind == b'|')),
        }
        Ok(())
    }

    fn end_of_value(&mut self) {
        while let Some((left, is_attribute)) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            let is_attribute = *is_attribute;
            self.open.pop();
            if is_attribute {
                return;
            }
        }
        (self.bytes, self.values) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Frames, &'static str> {
        let mut frames = Frames::default();
        frames.read(bytes).map(|()| frames)
    }

    #[test]
    fn an_announced_excess_is_refused_before_it_comes() {
        for refused in [
            "$16777217\r\n",
            "$9223372036854775807\r\n",
            "=1073741824\r\n",
            "!1073741824\r\n",
            "*65537\r\n",
            "%2147483647\r\n",
            "|32769\r\n",
            ">9223372036854775807\r\n",
            "*1\r\n$16777216\r\n",
            "*2\r\n*65000\r\n",
            "*4294967296\r\n",
            "$12345678901234567890123456789\r\n",
            "$?\r\n",
        ] {
            let twice =
                refused.replace("65000\r\n", &format!("65000\r\n{}*600\r\n", ":1\r\n".repeat(65_000)));
            assert!(read(twice.as_bytes()).is_err(), "{refused}");
        }
        assert!(read("*1\r\n".repeat(MOST_DEPTH + 1).as_bytes()).is_err());
        assert!(read(&[b'+'; 1 << 25]).is_err(), "a line without an end");
    }

    #[test]
    fn usual_replies_pass_and_each_reply_counts_for_itself() {
        let replies = "+OK\r\n-ERR no\r\n:1\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n(12\r\n$0\r\n\r\n*0\r\n%0\r\n\
            %1\r\n+a\r\n*2\r\n:1\r\n$3\r\na\r\n\r\n>3\r\n+message\r\n+a\r\n$1\r\nb\r\n|1\r\n+a\r\n:1\r\n*1\r\n:2\r\n=7\r\ntxt:abc\r\n";
        let frames = read(replies.as_bytes()).unwrap();
        assert_eq!((frames.open.len(), frames.skip, frames.bytes, frames.values), (0, 0, 0, 0));
        let mut large = Frames::default();
        for _ in 0..3 {
            large.read(b"$16000000\r\n").unwrap();
            large.read(&vec![b'x'; 16_000_002]).unwrap();
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_read_alike(
            bytes in proptest::collection::vec(prop_oneof![
                Just(b'$'), Just(b'*'), Just(b'%'), Just(b'|'), Just(b'\r'), Just(b'\n'), b'0'..=b'9', any::<u8>()
            ], 0..200),
            pieces in 1_usize..9,
        ) {
            let whole = read(&bytes);
            let mut frames = Frames::default();
            let pieced = bytes.chunks(pieces).try_for_each(|piece| frames.read(piece));
            prop_assert_eq!(whole.is_ok(), pieced.is_ok());
            if let Ok(whole) = whole {
                prop_assert_eq!((whole.open, whole.skip, whole.bytes), (frames.open, frames.skip, frames.bytes));
            }
        }
    }
}
