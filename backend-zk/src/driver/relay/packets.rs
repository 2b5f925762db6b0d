//! The packets at the start of a connection, each with its length before it.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The crate sets watches again by packets of 128 KiB of paths, each path with a length.
const LONGEST: usize = 256 * 1024;

pub(in crate::driver) const SCHEME: &str = "latchwork-relay";

pub(super) const AUTH: i32 = 100;
pub(super) const SET_WATCHES: [i32; 2] = [101, 105];
pub(super) const SASL: i32 = 102;

pub(super) async fn packet(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_i32().await?;
    let size = usize::try_from(length).ok().filter(|size| *size <= LONGEST);
    let size = size.ok_or_else(|| io::Error::other("a packet of an impossible length"))?;
    let mut packet = length.to_be_bytes().to_vec();
    packet.resize(4 + size, 0);
    stream.read_exact(&mut packet[4..]).await?;
    Ok(packet)
}

/// Zero for a new session.
pub(super) fn session_of(connect: &[u8]) -> Option<i64> {
    // After the length: protocol, last transaction, timeout.
    connect.get(20..28)?.try_into().ok().map(i64::from_be_bytes)
}

/// `None`: the session has ended.
pub(super) fn granted_in(answer: &[u8]) -> Option<i32> {
    // After the length: protocol, timeout, session.
    let session = i64::from_be_bytes(answer.get(12..20)?.try_into().ok()?);
    let granted = i32::from_be_bytes(answer.get(8..12)?.try_into().ok()?);
    (session != 0).then_some(granted)
}

pub(super) fn secret_of(packet: &[u8]) -> Option<(i32, &[u8])> {
    let (_, rest) = packet.split_first_chunk::<4>()?;
    let (xid, rest) = number(rest)?;
    let (code, rest) = number(rest)?;
    let (_kind, rest) = number(rest)?;
    let (scheme, rest) = text(rest)?;
    let (secret, _) = text(rest)?;
    (code == AUTH && scheme == SCHEME.as_bytes()).then_some((xid, secret))
}

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

/// Number, no transaction, no error.
pub(super) fn answered(xid: i32) -> [u8; 20] {
    let mut reply = [0; 20];
    reply[..4].copy_from_slice(&16_i32.to_be_bytes());
    reply[4..8].copy_from_slice(&xid.to_be_bytes());
    reply
}
