use std::io;
use std::sync::Arc;

use latchwork_conformance::servers::relay::Relay;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Length, type, flags, stream.
const HEADER: usize = 9;
const DATA: u8 = 0;

type Loses = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

pub(crate) async fn relay(upstream: &str, loses: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Relay {
    let loses: Loses = Arc::new(loses);
    Relay::start(upstream, move |client, server| serve(client, server, Arc::clone(&loses))).await.unwrap()
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
