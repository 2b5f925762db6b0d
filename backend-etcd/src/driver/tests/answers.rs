//! The answers of a scripted server, as gRPC has them.

use std::future::pending;
use std::time::Duration;

use h2::RecvStream;
use h2::server::SendResponse;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};

/// The behaviour of a scripted server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Answers,
    /// Answers nothing, not even pings.
    Silent,
    /// Takes this time for each message, but answers pings at once.
    Slow(Duration),
    /// Closes its connections and refuses new ones.
    Down,
    /// Closes its connections, and a dial does not end.
    Hangs,
}

impl Mode {
    pub(super) fn has_connections(self) -> bool {
        !matches!(self, Mode::Down | Mode::Hangs)
    }
}

/// The headers of the answers. Each number is below 128.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) cluster: u8,
    pub(super) revision: u8,
    pub(super) term: u8,
    pub(super) answers: Only,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Only {
    All,
    /// A leader that waits for its disk.
    Renewals,
    NoRenewals,
    /// A learner.
    Nothing,
}

const KEEP_ALIVE: &str = "LeaseKeepAlive";

const PREFIX: usize = 5;

/// Answers each message of a stream, and ends with it.
pub(super) async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    mode: watch::Receiver<Mode>,
    state: watch::Receiver<State>,
) -> Option<()> {
    let (parts, mut body) = request.into_parts();
    let (mut answers, mut read) = (None, Vec::new());
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        read.extend_from_slice(&data);
        while takes_message(&mut read) {
            let now = *mode.borrow();
            if let Mode::Slow(work) = now {
                sleep(work).await;
            }
            let method = parts.uri.path().rsplit('/').next();
            let only = state.borrow().answers;
            if only == Only::Nothing {
                let refusal = Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", "14")
                    .header("grpc-message", "etcdserver: rpc not supported for learner");
                respond.send_response(refusal.body(()).ok()?, true).ok()?;
                return Some(());
            }
            let not_answered = match only {
                Only::All | Only::Nothing => false,
                Only::Renewals => method != Some(KEEP_ALIVE),
                Only::NoRenewals => method == Some(KEEP_ALIVE),
            };
            if not_answered {
                pending::<()>().await;
            }
            if answers.is_none() {
                let headers = Response::builder().header("content-type", "application/grpc");
                answers = Some(respond.send_response(headers.body(()).ok()?, false).ok()?);
            }
            answers.as_mut()?.send_data(message(method, *state.borrow()), false).ok()?;
        }
    }
    let trailers = HeaderMap::from_iter([("grpc-status".parse().ok()?, HeaderValue::from(0))]);
    answers?.send_trailers(trailers).ok()
}

fn takes_message(read: &mut Vec<u8>) -> bool {
    let Some(prefix) = read.first_chunk::<PREFIX>() else { return false };
    let size = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    let is_whole = read.len() >= PREFIX + size;
    if is_whole {
        read.drain(..PREFIX + size);
    }
    is_whole
}

/// A header, and fields by their numbers.
fn message(method: Option<&str>, State { cluster, revision, term, .. }: State) -> Bytes {
    let header = [0x0a, 8, 0x08, cluster, 0x10, 1, 0x18, revision, 0x20, term];
    let fields: &[u8] = match method {
        // Lease 7 has 60 s.
        Some("LeaseGrant" | KEEP_ALIVE) => &[0x10, 7, 0x18, 60],
        // Watch 1 is created.
        Some("Watch") => &[0x10, 1, 0x18, 1],
        // It has succeeded.
        Some("Txn") => &[0x10, 1],
        _ => &[],
    };
    let size = u8::try_from(header.len() + fields.len()).expect("short");
    [&[0, 0, 0, 0, size][..], &header, fields].concat().into()
}
