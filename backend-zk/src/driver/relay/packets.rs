//! The packets at the start of a connection, as they pass the [relay](super). Each has its length before it.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest such packet: the crate sets watches again by packets of 128 KiB of paths, and a length for each.
const LONGEST: usize = 256 * 1024;

/// The scheme of the packet with the secret. No server sees it.
pub(in crate::driver) const SCHEME: &str = "latchwork-relay";

/// The code of an `auth` request.
pub(super) const AUTH: i32 = 100;
/// The codes of requests that set watches again.
pub(super) const SET_WATCHES: [i32; 2] = [101, 105];
/// The code of a step of a login by SASL.
pub(super) const SASL: i32 = 102;

/// Reads a packet with its length before it.
pub(super) async fn packet(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_i32().await?;
    let size = usize::try_from(length).ok().filter(|size| *size <= LONGEST);
    let size = size.ok_or_else(|| io::Error::other("a packet of an impossible length"))?;
    let mut packet = length.to_be_bytes().to_vec();
    packet.resize(4 + size, 0);
    stream.read_exact(&mut packet[4..]).await?;
    Ok(packet)
}

/// Returns the session of a connect request; zero for a new one.
pub(super) fn session_of(connect: &[u8]) -> Option<i64> {
    // After the length: protocol, last transaction, timeout.
    connect.get(20..28)?.try_into().ok().map(i64::from_be_bytes)
}

/// Returns the timeout in the answer to a connect request, if the session has not ended.
pub(super) fn granted_in(answer: &[u8]) -> Option<i32> {
    // After the length: protocol, timeout, session.
    let session = i64::from_be_bytes(answer.get(12..20)?.try_into().ok()?);
    let granted = i32::from_be_bytes(answer.get(8..12)?.try_into().ok()?);
    (session != 0).then_some(granted)
}

/// Returns the number and the secret of an `auth` packet of the relay's scheme.
pub(super) fn secret_of(packet: &[u8]) -> Option<(i32, &[u8])> {
    let (_, rest) = packet.split_first_chunk::<4>()?;
    let (xid, rest) = number(rest)?;
    let (code, rest) = number(rest)?;
    let (_kind, rest) = number(rest)?;
    let (scheme, rest) = text(rest)?;
    let (secret, _) = text(rest)?;
    (code == AUTH && scheme == SCHEME.as_bytes()).then_some((xid, secret))
}

/// Returns the code of a request.
pub(super) fn code_of(packet: &[u8]) -> Option<i32> {
    let (_, rest) = packet.split_first_chunk::<4>()?;
    let (_xid, rest) = number(rest)?;
    number(rest).map(|(code, _)| code)
}

fn number(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes(*number), rest))
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// Makes the reply to a request without a result: number, no transaction, no error.
pub(super) fn answered(xid: i32) -> [u8; 20] {
    let mut reply = [0; 20];
    reply[..4].copy_from_slice(&16_i32.to_be_bytes());
    reply[4..8].copy_from_slice(&xid.to_be_bytes());
    reply
}
