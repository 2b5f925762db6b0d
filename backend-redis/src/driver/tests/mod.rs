//! A scripted server in memory, for the driver's times under a paused clock.

mod answers;
mod times;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::answers::{answer, read_request};
use crate::config::Host;

thread_local! {
    static SERVERS: RefCell<HashMap<String, Scripted>> = RefCell::default();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Answers,
    /// Answers nothing.
    Silent,
    Slow(Duration),
    Down,
}

#[derive(Clone)]
struct Scripted {
    mode: Arc<watch::Sender<Mode>>,
    dials: Arc<Mutex<Vec<Instant>>>,
}

impl Scripted {
    fn start(host: &str, mode: Mode) -> Self {
        let server = Self { mode: Arc::new(watch::Sender::new(mode)), dials: Arc::default() };
        SERVERS.with_borrow_mut(|servers| servers.insert(host.to_owned(), server.clone()));
        server
    }

    fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    fn dials(&self) -> Vec<Instant> {
        self.dials.lock().clone()
    }

    fn accept(&self) -> io::Result<DuplexStream> {
        self.dials.lock().push(Instant::now());
        if *self.mode.borrow() == Mode::Down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (client, server) = duplex(1 << 16);
        tokio::spawn(serve(server, self.mode.subscribe()));
        Ok(client)
    }
}

pub(super) fn dial(host: &Host) -> Option<io::Result<DuplexStream>> {
    let server = SERVERS.with_borrow(|servers| servers.get(&host.to_string()).cloned())?;
    Some(server.accept())
}

async fn serve(stream: DuplexStream, mut mode: watch::Receiver<Mode>) {
    let mut stream = BufReader::new(stream);
    let mut goes_down = mode.clone();
    let serves = async {
        while let Some(request) = read_request(&mut stream).await {
            let now = *mode.borrow_and_update();
            if let Mode::Slow(work) = now {
                sleep(work).await;
            }
            if now != Mode::Silent && stream.write_all(&answer(&request)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = serves => {}
        _ = goes_down.wait_for(|mode| *mode == Mode::Down) => {}
    }
}
