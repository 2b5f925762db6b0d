//! Whether a server speaks TLS, for the error of a client that does not.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The bound of the question.
const PATIENCE: Duration = Duration::from_millis(700);

/// A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2) without extensions. A server of TLS answers it with its
/// own hello or with an alert, whatever versions it takes.
const HELLO: &[u8; 64] =
    // A handshake record of 59 bytes, in it a ClientHello of 55 bytes, with its 32 random ones.
    b"\x16\x03\x01\x00\x3b\x01\x00\x00\x37\x03\x03latchwork asks: is this TLS?????\
    \x00\x00\x10\x13\x01\x13\x02\xc0\x2b\xc0\x2c\xc0\x2f\xc0\x30\x00\x9c\x00\x2f\x01\x00";

/// Whether what answers at `host:port` speaks TLS. Silence is no.
///
/// # Cancel safety
/// Cancel-safe.
pub async fn speaks_tls(address: &str) -> bool {
    let asked = tokio::time::timeout(PATIENCE, first_bytes(address)).await;
    // A record (RFC 5246, 6.2.1): an alert or a handshake, of a version 3.x.
    matches!(asked, Ok(Ok([0x15 | 0x16, 3])))
}

async fn first_bytes(address: &str) -> io::Result<[u8; 2]> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(HELLO).await?;
    let mut start = [0; 2];
    stream.read_exact(&mut start).await?;
    Ok(start)
}
