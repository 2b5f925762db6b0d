use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::answer::{Awaited, Conversation};
use super::faults::{self, Direction, Faults};
use super::shared::{Client, Shared};
use super::trap::{Catch, Delivery};
use crate::accepting::connected;

/// For the request of a dropped reply.
const LINGER: Duration = Duration::from_secs(1);

/// Before a refusing server is dialled again.
const AGAIN: Duration = Duration::from_millis(20);

struct Chunk {
    bytes: Vec<u8>,
    received: Instant,
}

enum Ended {
    Broken,
    ReplyDropped(watch::Sender<bool>),
    Parked { request: Vec<u8>, awaited: Awaited, caught: watch::Sender<bool>, delivery: Delivery },
}

/// Both sides only see a broken connection.
impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Ended::Broken
    }
}

enum ReplyFault {
    Drop(watch::Sender<bool>),
    Hold(watch::Sender<bool>),
}

#[derive(Default)]
struct Replies {
    conversation: Conversation,
    fault: Option<(ReplyFault, Awaited)>,
    /// Replies are held until the number of resumes is above this.
    kept: Option<u64>,
}

pub(super) async fn run(mut client: Client, shared: Arc<Shared>) {
    let mut cuts = shared.faults.subscribe();
    let born = client.cuts;
    let mut upstream = None;
    let replies = Mutex::new(Replies::default());
    let ended = tokio::select! {
        () = faults::cut(&mut cuts, born) => Err(Ended::Broken),
        ended = forward(&mut client.stream, &mut upstream, &shared, &replies, born) => ended,
    };
    drop(client);
    let conversation = replies.into_inner().unwrap_or_else(PoisonError::into_inner).conversation;
    let Some(mut upstream) = upstream else { return };
    match ended {
        Ok(()) | Err(Ended::Broken) => {}
        Err(Ended::ReplyDropped(fired)) => {
            fired.send_replace(true);
            // A server may drop requests of a connection that closes now.
            linger(&mut upstream).await;
        }
        Err(Ended::Parked { request, awaited, caught, delivery: Delivery { asked, done } }) => {
            caught.send_replace(true);
            if asked.await.is_ok() && answered(&mut upstream, &request, conversation, awaited).await.is_ok() {
                // An error: the test has dropped the receiver.
                let _ = done.send(());
                linger(&mut upstream).await;
            }
        }
    }
}

async fn linger(upstream: &mut TcpStream) {
    let _ = timeout(LINGER, tokio::io::copy(upstream, &mut tokio::io::sink())).await;
}

async fn answered(
    upstream: &mut TcpStream,
    request: &[u8],
    mut conversation: Conversation,
    mut awaited: Awaited,
) -> io::Result<()> {
    upstream.write_all(request).await?;
    let mut buffer = vec![0; 64 * 1024];
    while !awaited.is_over() {
        match upstream.read(&mut buffer).await? {
            0 => break,
            length => _ = conversation.reply(&buffer[..length], Some(&mut awaited)),
        }
    }
    Ok(())
}

async fn forward(
    client: &mut TcpStream,
    upstream: &mut Option<TcpStream>,
    shared: &Shared,
    replies: &Mutex<Replies>,
    born: u64,
) -> Result<(), Ended> {
    let (client_read, client_write) = client.split();
    let (requests_in, requests) = mpsc::unbounded_channel();
    let (replies_in, replies_out) = mpsc::unbounded_channel();

    // The proxy must notice a client that gives up, also before the server is dialled.
    let read_requests = read(client_read, move |chunk| {
        let _ = requests_in.send(chunk);
        Ok(())
    });
    let connected = async {
        faults::open(&mut shared.faults.subscribe()).await;
        if requests.is_closed() {
            return Ok(());
        }
        let upstream = upstream.insert(dial(shared, &requests).await?);
        let (server_read, server_write) = upstream.split();
        let read_replies = read(server_read, move |chunk| {
            strike(replies, &chunk.bytes, &shared.faults)?;
            let told = shared.replies.spring(&chunk.bytes);
            let _ = replies_in.send(chunk);
            for trap in told {
                trap.fired.send_replace(true);
            }
            Ok(())
        });
        tokio::try_join!(
            read_replies,
            pump_requests(requests, server_write, shared, replies, born),
            pump_replies(replies_out, client_write, shared, replies, born),
        )?;
        Ok(())
    };
    tokio::try_join!(read_requests, connected).map(drop)
}

/// A patient proxy tries as long as the client waits.
async fn dial(shared: &Shared, requests: &mpsc::UnboundedReceiver<Chunk>) -> io::Result<TcpStream> {
    loop {
        match connected(&shared.upstream).await {
            Err(_) if shared.manners.patient && !requests.is_closed() => sleep(AGAIN).await,
            done => return done,
        }
    }
}

/// A reset counts as an end, and keeps its place in the order.
async fn read(
    mut from: impl AsyncRead + Unpin,
    mut hand_on: impl FnMut(Chunk) -> Result<(), Ended>,
) -> Result<(), Ended> {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        hand_on(Chunk { bytes: buffer[..length].to_vec(), received: Instant::now() })?;
    }
    Ok(())
}

fn strike(replies: &Mutex<Replies>, chunk: &[u8], faults: &watch::Sender<Faults>) -> Result<(), Ended> {
    let mut replies = replies.lock().unwrap_or_else(PoisonError::into_inner);
    let replies = &mut *replies;
    if !replies.conversation.reply(chunk, replies.fault.as_mut().map(|(_, awaited)| awaited)) {
        return Ok(());
    }
    match replies.fault.take() {
        None => Ok(()),
        Some((ReplyFault::Drop(fired), _)) => Err(Ended::ReplyDropped(fired)),
        Some((ReplyFault::Hold(fired), _)) => {
            replies.kept = Some(faults.borrow().resumes);
            fired.send_replace(true);
            Ok(())
        }
    }
}

/// No bytes pass after a cut, even before the connection's task has noticed it: an executed request with a
/// lost reply is another fault.
fn not_cut(faults: &watch::Receiver<Faults>, born: u64) -> Result<(), Ended> {
    if faults.borrow().cuts > born { Err(Ended::Broken) } else { Ok(()) }
}

async fn pump_requests(
    mut requests: mpsc::UnboundedReceiver<Chunk>,
    mut server: impl AsyncWrite + Unpin,
    shared: &Shared,
    replies: &Mutex<Replies>,
    born: u64,
) -> Result<(), Ended> {
    let mut faults = shared.faults.subscribe();
    let mut introduce = shared.manners.introduce;
    while let Some(Chunk { mut bytes, received }) = requests.recv().await {
        if let Some(introduce) = introduce.take() {
            introduce(&mut bytes);
        }
        faults::pass(&mut faults, Direction::ToServer, received, None).await;
        faults::squeeze(&mut faults, Direction::ToServer, bytes.len()).await;
        not_cut(&faults, born)?;
        let (mut told, mut reply_fault) = (Vec::new(), None);
        let awaited = replies.lock().unwrap_or_else(PoisonError::into_inner).conversation.request(&bytes);
        for trap in shared.traps.spring(&bytes) {
            match trap.catch {
                Catch::Tell => told.push(trap.fired),
                Catch::DropReply => reply_fault = Some(ReplyFault::Drop(trap.fired)),
                Catch::HoldReply => reply_fault = Some(ReplyFault::Hold(trap.fired)),
                Catch::Park(delivery) => {
                    return Err(Ended::Parked { request: bytes, awaited, caught: trap.fired, delivery });
                }
            }
        }
        server.write_all(&bytes).await?;
        shared.asked.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        if let Some(fault) = reply_fault {
            replies.lock().unwrap_or_else(PoisonError::into_inner).fault = Some((fault, awaited));
        }
        for fired in told {
            fired.send_replace(true);
        }
    }
    faults::pass(&mut faults, Direction::ToServer, Instant::now(), None).await;
    Ok(server.shutdown().await?)
}

async fn pump_replies(
    mut replies_out: mpsc::UnboundedReceiver<Chunk>,
    mut client: impl AsyncWrite + Unpin,
    shared: &Shared,
    replies: &Mutex<Replies>,
    born: u64,
) -> Result<(), Ended> {
    let mut faults = shared.faults.subscribe();
    let kept = || replies.lock().unwrap_or_else(PoisonError::into_inner).kept;
    let mut cut_off = Vec::new();
    while let Some(Chunk { mut bytes, received }) = replies_out.recv().await {
        if let Some(readdress) = shared.readdress.get() {
            bytes = readdress.apply(&mut cut_off, bytes);
        }
        faults::pass(&mut faults, Direction::ToClient, received, kept()).await;
        faults::squeeze(&mut faults, Direction::ToClient, bytes.len()).await;
        not_cut(&faults, born)?;
        client.write_all(&bytes).await?;
        shared.answered.fetch_add(bytes.len() as u64, Ordering::AcqRel);
    }
    faults::pass(&mut faults, Direction::ToClient, Instant::now(), kept()).await;
    Ok(client.shutdown().await?)
}
