//! A relay before a server that loses single messages on their way to a client, as a broken server or
//! middlebox does, while the connection stands.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The header of a frame of HTTP/2: length, type, flags, stream.
const HEADER: usize = 9;
/// The type of a frame with a part of a message.
const DATA: u8 = 0;

/// Whether this data is lost.
type Loses = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

pub(crate) struct Losing {
    addr: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Drop for Losing {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Losing {
    /// The messages here are small, so that each is the data of one frame.
    pub(crate) async fn start(upstream: &str, loses: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (upstream, loses): (_, Loses) = (upstream.to_owned(), Arc::new(loses));
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&upstream).await else { continue };
                // It ends with either side.
                tokio::spawn(serve(client, server, Arc::clone(&loses)));
            }
        });
        Self { addr, accepting }
    }

    pub(crate) fn addr(&self) -> String {
        self.addr.to_string()
    }
}

async fn serve(client: TcpStream, server: TcpStream, loses: Loses) -> io::Result<()> {
    let ((mut from_client, to_client), (from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        ended = copy(&mut from_client, &mut to_server) => ended.map(drop),
        ended = frames(from_server, to_client, loses) => ended,
    }
}

async fn frames(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, loses: Loses) -> io::Result<()> {
    loop {
        let mut frame = vec![0; HEADER];
        from.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        frame.resize(HEADER + usize::try_from(length).map_err(io::Error::other)?, 0);
        from.read_exact(&mut frame[HEADER..]).await?;
        if frame[3] != DATA || !loses(&frame[HEADER..]) {
            to.write_all(&frame).await?;
        }
    }
}
