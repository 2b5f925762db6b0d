//! Finds the answer to a request.
//!
//! An HTTP/2 server also sends other frames: acknowledgements of pings, windows, messages of other streams.
//! So the proxy reads the headers of the frames (RFC 9113, section 4.1). Other protocols answer in order: the
//! next chunk is the answer.

use std::collections::BTreeSet;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADER: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;

#[derive(Debug)]
pub(super) enum Awaited {
    NextChunk,
    Streams(BTreeSet<u32>),
}

impl Awaited {
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Awaited::Streams(streams) if streams.is_empty())
    }
}

#[derive(Debug, Default)]
pub(super) struct Conversation {
    is_http2: Option<bool>,
    requests: Frames,
    replies: Frames,
}

impl Conversation {
    pub(super) fn request(&mut self, chunk: &[u8]) -> Awaited {
        let is_first = self.is_http2.is_none();
        if !*self.is_http2.get_or_insert_with(|| chunk.starts_with(PREFACE)) {
            return Awaited::NextChunk;
        }
        let frames = self.requests.read(if is_first { &chunk[PREFACE.len()..] } else { chunk });
        // The server answers no cancelled request, and no incomplete message.
        let cut = frames.last().filter(|_| self.requests.payload > 0).map(|frame| frame.stream);
        let cancelled = |stream| {
            Some(stream) == cut
                || frames.iter().any(|frame| frame.kind == RST_STREAM && frame.stream == stream)
        };
        let streams = |kind| -> BTreeSet<u32> {
            let of_kind = frames.iter().filter(|frame| frame.kind == kind).map(|frame| frame.stream);
            of_kind.filter(|&stream| !cancelled(stream)).collect()
        };
        if !frames.iter().any(|frame| [HEADERS, DATA].contains(&frame.kind)) {
            // The chunk only keeps the connection alive, or continues a message.
            return Awaited::NextChunk;
        }
        // First new requests with their messages, then messages of open streams.
        let (new, messages) = (streams(HEADERS), streams(DATA));
        let whole: BTreeSet<_> = new.intersection(&messages).copied().collect();
        let awaited = [whole, messages, new].into_iter().find(|streams| !streams.is_empty());
        Awaited::Streams(awaited.unwrap_or_default())
    }

    /// Returns whether the chunk answers an awaited request, which it removes.
    pub(super) fn reply(&mut self, chunk: &[u8], awaited: Option<&mut Awaited>) -> bool {
        let frames = if self.is_http2 == Some(true) { self.replies.read(chunk) } else { Vec::new() };
        match awaited {
            None => false,
            Some(awaited @ Awaited::NextChunk) => {
                *awaited = Awaited::Streams(BTreeSet::new());
                true
            }
            Some(Awaited::Streams(streams)) => {
                let before = streams.len();
                for frame in frames {
                    if [DATA, HEADERS, RST_STREAM].contains(&frame.kind) {
                        streams.remove(&frame.stream);
                    }
                }
                streams.len() < before
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u8,
    stream: u32,
}

/// Finds frames for any division into chunks.
#[derive(Debug, Default)]
struct Frames {
    header: Vec<u8>,
    payload: usize,
}

impl Frames {
    /// The frames whose header ends in this chunk.
    fn read(&mut self, mut chunk: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        while !chunk.is_empty() {
            let skipped = self.payload.min(chunk.len());
            self.payload -= skipped;
            let taken;
            (taken, chunk) =
                chunk[skipped..].split_at((HEADER - self.header.len()).min(chunk.len() - skipped));
            self.header.extend(taken);
            if let [high, middle, low, kind, _flags, a, b, c, d] = self.header[..] {
                self.payload = u32::from_be_bytes([0, high, middle, low]) as usize;
                frames.push(Frame { kind, stream: u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff });
                self.header.clear();
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, 0, 0, 0, 0, stream], payload].concat()
    }

    fn opened() -> Conversation {
        let mut conversation = Conversation::default();
        conversation.request(&[PREFACE, &frame(4, 0, b"settings")].concat());
        conversation
    }

    #[test]
    fn http2_request_is_answered_on_its_stream_only() {
        let mut conversation = opened();
        let mut awaited = conversation.request(&[frame(HEADERS, 5, b"txn"), frame(DATA, 5, b"key")].concat());
        for stray in [frame(6, 0, b"pingpong"), frame(8, 5, b"1234"), frame(DATA, 3, b"of a watch")] {
            assert!(!conversation.reply(&stray, Some(&mut awaited)), "{stray:?}");
        }
        assert!(!awaited.is_over());
        assert!(conversation.reply(&frame(HEADERS, 5, b"200"), Some(&mut awaited)));
        assert!(awaited.is_over());
    }

    #[test]
    fn http2_message_on_an_open_stream_is_answered_by_data() {
        let mut conversation = opened();
        conversation.request(&frame(HEADERS, 3, b"watch"));
        let mut awaited = conversation.request(&frame(DATA, 3, b"key"));
        assert!(conversation.reply(&frame(DATA, 3, b"created"), Some(&mut awaited)));
        assert!(awaited.is_over());
    }

    #[test]
    fn http2_frames_are_found_however_they_are_cut() {
        for cut in 1..20 {
            let mut conversation = opened();
            let mut awaited = conversation.request(&frame(HEADERS, 7, b"x"));
            let replies = [frame(6, 0, b"\x01\x01\x01\x01\x01\x01\x01\x01"), frame(HEADERS, 7, b"")].concat();
            let answers =
                replies.chunks(cut).filter(|chunk| conversation.reply(chunk, Some(&mut awaited))).count();
            assert_eq!(answers, 1, "cut at {cut}");
        }
    }

    #[test]
    fn http2_request_that_the_client_cancels_or_cuts_is_not_awaited() {
        let request = |stream| [frame(HEADERS, stream, b"txn"), frame(DATA, stream, b"key")].concat();
        let cancelled = [request(5), frame(RST_STREAM, 5, b"1234")].concat();
        assert!(opened().request(&cancelled).is_over());
        let two = [request(9), request(11)].concat();
        let mut conversation = opened();
        let mut awaited = conversation.request(&two[..two.len() - 1]);
        assert!(conversation.reply(&frame(HEADERS, 9, b"200"), Some(&mut awaited)));
        assert!(awaited.is_over(), "the end of the second message has not been sent");
    }

    #[test]
    fn other_protocols_answer_with_the_next_chunk() {
        let mut conversation = Conversation::default();
        let mut awaited = conversation.request(b"*1\r\n$4\r\nPING\r\n");
        assert!(conversation.reply(b"+PONG", Some(&mut awaited)));
        assert!(awaited.is_over());
    }
}
