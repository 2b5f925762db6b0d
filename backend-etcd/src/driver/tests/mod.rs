//! A scripted server on streams in memory, for tests of the driver's times under a paused clock.

mod answers;
mod deposed;
mod incarnations;
mod times;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::Clock;
use parking_lot::Mutex;
use tokio::io::{DuplexStream, duplex};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::answers::{Mode, Only, State, answer};
use crate::driver::Driver;
use crate::renewal;
use crate::session::Session;

thread_local! {
    /// By host. A paused runtime has one thread.
    static SERVERS: RefCell<HashMap<String, Scripted>> = RefCell::default();
}

#[derive(Clone)]
struct Scripted {
    mode: Arc<watch::Sender<Mode>>,
    state: Arc<watch::Sender<State>>,
    dials: Arc<Mutex<Vec<Instant>>>,
}

impl Scripted {
    /// `host`: `name:port`.
    fn start(host: &str, mode: Mode) -> Self {
        let server = Self {
            mode: Arc::new(watch::Sender::new(mode)),
            state: Arc::new(watch::Sender::new(State {
                cluster: 1,
                revision: 1,
                term: 1,
                answers: Only::All,
            })),
            dials: Arc::default(),
        };
        SERVERS.with_borrow_mut(|servers| servers.insert(host.to_owned(), server.clone()));
        server
    }

    fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    fn shows(&self, cluster: u8, revision: u8) {
        self.state.send_modify(|state| (state.cluster, state.revision) = (cluster, revision));
    }

    fn knows_term(&self, term: u8) {
        self.state.send_modify(|state| state.term = term);
    }

    fn answers(&self, only: Only) {
        self.state.send_modify(|state| state.answers = only);
    }

    fn dials(&self) -> Vec<Instant> {
        self.dials.lock().clone()
    }

    async fn accept(self) -> io::Result<DuplexStream> {
        self.dials.lock().push(Instant::now());
        let mode = *self.mode.borrow();
        match mode {
            Mode::Hangs => pending().await,
            Mode::Down => Err(io::ErrorKind::ConnectionRefused.into()),
            Mode::Answers | Mode::Silent | Mode::Slow(_) => {
                let (client, server) = duplex(1 << 16);
                tokio::spawn(serve(server, self.mode.subscribe(), self.state.subscribe()));
                Ok(client)
            }
        }
    }
}

const TTL: Duration = Duration::from_secs(60);

async fn kept(driver: &Driver) -> Arc<Session> {
    let session = Session::grant(&Handle::current(), driver, &Clock::tokio(), TTL).await.expect("granted");
    let session = Arc::new(session);
    renewal::start(&Handle::current(), driver, &session, &CancellationToken::new());
    session
}

/// `None`: the test has no server of this name.
pub(super) async fn dial(host: &str) -> Option<io::Result<DuplexStream>> {
    let server = SERVERS.with_borrow(|servers| servers.get(host).cloned())?;
    Some(server.accept().await)
}

async fn serve(stream: DuplexStream, mode: watch::Receiver<Mode>, state: watch::Receiver<State>) {
    let mut closes = mode.clone();
    let serves = async {
        speaks(mode.clone()).await;
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        loop {
            // Without a poll the connection sends nothing.
            speaks(mode.clone()).await;
            let mut falls_silent = mode.clone();
            tokio::select! {
                biased;
                _ = falls_silent.wait_for(|mode| *mode == Mode::Silent) => {}
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => {
                        drop(tokio::spawn(answer(request, respond, mode.clone(), state.clone())));
                    }
                    _ => return,
                },
            }
        }
    };
    tokio::select! {
        () = serves => {}
        _ = closes.wait_for(|mode| !mode.has_connections()) => {}
    }
}

async fn speaks(mut mode: watch::Receiver<Mode>) {
    // An error means that the test has ended.
    let _ = mode.wait_for(|mode| *mode != Mode::Silent).await;
}
