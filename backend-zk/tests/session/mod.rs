mod late;
mod lease;
mod reopened;
mod replies;
mod watch_budget;
mod watch_sessions;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::common::{config, soon};
use latchwork_conformance::proxy::{Event, Proxy};
use latchwork_core::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn through(addr: &str) -> (Proxy, Config) {
    let proxy = Proxy::start(addr).await.unwrap();
    let config = config(&proxy.addr().to_string());
    (proxy, config)
}

type Connects = Mutex<HashMap<i64, Vec<u8>>>;

fn connects(proxy: &Proxy) -> (Arc<Connects>, Event) {
    let connects = Arc::new(Connects::default());
    let heard = Arc::clone(&connects);
    let hear = proxy.request(move |chunk| {
        if let (true, Some(session)) = (opens_a_session(chunk), chunk.get(20..28)) {
            let session = i64::from_be_bytes(session.try_into().unwrap());
            let length = 4 + usize::from(chunk[3]);
            heard.lock().unwrap().insert(session, chunk[..length].to_vec());
        }
        false
    });
    (connects, hear)
}

/// On another connection.
async fn end_session(addr: &str, connect: &[u8]) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(connect).await.unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).await.unwrap();
    let close: [[u8; 4]; 3] = [8_i32, 1, -11].map(i32::to_be_bytes);
    stream.write_all(&close.concat()).await.unwrap();
    soon(stream.read_to_end(&mut Vec::new())).await.unwrap();
}

fn opens_a_session(chunk: &[u8]) -> bool {
    matches!(chunk.first_chunk(), Some(&[0, 0, 0, 44 | 45, 0, 0, 0, 0]))
}
