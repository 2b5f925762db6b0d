//! Changes messages, to simulate a server after years, or a broken one.

use std::io;
use std::sync::Arc;

use latchwork_conformance::servers::relay::Relay;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

type Change = Arc<dyn Fn(&mut Vec<u8>) + Send + Sync>;

pub(crate) async fn rewriting(
    upstream: &str,
    requests: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
    replies: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
) -> Relay {
    let (requests, replies): (Change, Change) = (Arc::new(requests), Arc::new(replies));
    let each = move |client, server| serve(client, server, Arc::clone(&requests), Arc::clone(&replies));
    Relay::start(upstream, each).await.unwrap()
}

async fn serve(
    mut client: TcpStream,
    mut server: TcpStream,
    requests: Change,
    replies: Change,
) -> io::Result<()> {
    let mut first = [0; 4];
    if client.peek(&mut first).await? == 4 && first.is_ascii() && first[0] != 0 {
        return copy_bidirectional(&mut client, &mut server).await.map(drop);
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = relay(from_client, to_server, requests) => ended,
        ended = relay(from_server, to_client, replies) => ended,
    }
}

async fn relay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, change: Change) -> io::Result<()> {
    loop {
        let length = from.read_u32().await?;
        let mut message = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        from.read_exact(&mut message).await?;
        change(&mut message);
        let length = u32::try_from(message.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes(), message.as_slice()].concat();
        to.write_all(&framed).await?;
    }
}

pub(crate) fn replace(message: &mut [u8], old: &str, new: &str) {
    assert_eq!(old.len(), new.len());
    for at in 0..(message.len() + 1).saturating_sub(old.len()) {
        if message[at..].starts_with(old.as_bytes()) {
            message[at..at + old.len()].copy_from_slice(new.as_bytes());
        }
    }
}
