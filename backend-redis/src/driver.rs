//! The one connection to the server, for commands and messages: the only place that calls the client crate.
//!
//! A connection that breaks, or whose server turns out to be no master any more, is replaced by dialling again:
//! name resolution, login, checks and subscription anew. (The crate's own connection manager reconnects too, but stays
//! with a demoted master for ever, and ignores a refused subscription.)

mod dial;
mod guard;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::decide::renewal_period;
use latchwork_core::{Clock, Error, ErrorKind, Eviction, Moment, Result};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::{Notify, watch};

use self::dial::Dialler;
use crate::config::{Settings, life};
use crate::error::{Failure, closed, from_redis, given_up, timed_out};
use crate::scripts::{self, Call, Reply};

/// Receives the messages of the own inbox, as they come, on the connection's task: it must not block.
pub(crate) type OnMessage = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A connection that is renewed as long as the driver lives.
pub(crate) struct Driver {
    clock: Clock,
    link: Arc<watch::Sender<Link>>,
    // Host and port.
    address: String,
    inbox: String,
    // The last argument of every script.
    life: String,
    // How long a server may be silent before another connection is tried.
    patience: Duration,
    // When the first request was sent that timed out since the last answer.
    silent_since: AtomicU64,
    // When the last answer came.
    heard_at: AtomicU64,
    incarnation: Arc<Incarnation>,
}

/// The server that the connection leads to, and since when.
#[derive(Debug)]
struct Incarnation {
    run_id: Mutex<Option<String>>,
    since: AtomicU64,
}

impl Incarnation {
    /// Before the first request on a new connection. Where a server does not say who it is, it is taken for the one it was.
    fn met(&self, run_id: Option<String>, now: Moment) {
        let mut known = self.run_id.lock();
        if run_id.is_some() && *known != run_id {
            if known.is_some() {
                tracing::info!(
                    "the server is another than before, or was restarted: it may have forgotten what was held"
                );
                self.since.store(now.as_nanos(), Ordering::Release);
            }
            *known = run_id;
        }
    }
}

enum Link {
    Up(Wire),
    /// With why it was given up, or what the last dialling came to.
    Down(Error),
    Closed,
}

impl Link {
    fn is_up(&self, generation: u64) -> bool {
        matches!(self, Link::Up(wire) if wire.generation == generation)
    }

    fn why(&self) -> Option<Error> {
        match self {
            Link::Down(why) => Some(why.clone()),
            _ => None,
        }
    }
}

#[derive(Clone)]
struct Wire {
    generation: u64,
    connection: MultiplexedConnection,
}

impl Wire {
    /// The bound is the client crate's: a timer of our own beside it would be one more for each request.
    async fn answer(
        &mut self,
        command: &Cmd,
        until: tokio::time::Instant,
    ) -> std::result::Result<Value, Failure> {
        self.connection.set_response_timeout(until.saturating_duration_since(tokio::time::Instant::now()));
        let answer = self.connection.send_packed_command(command).await.and_then(Value::extract_error);
        answer.map_err(|error| if error.is_timeout() { timed_out() } else { from_redis(error, true) })
    }
}

/// The losses of a connection.
pub(crate) struct Losses(watch::Receiver<Link>);

impl Losses {
    /// The next one, of a connection that stands by then: `None` once the driver is closed or gone.
    ///
    /// # Cancel safety
    /// Not needed: its task has nothing else to do.
    pub(crate) async fn next(&mut self) -> Option<()> {
        self.0.wait_for(|link| !matches!(link, Link::Down(_))).await.ok()?;
        let closed = self.0.wait_for(|link| !matches!(link, Link::Up(_))).await.ok()?;
        (!matches!(*closed, Link::Closed)).then_some(())
    }
}

impl Driver {
    /// Dials, and answers whether the server evicts locks. From then on the connection is replaced when it breaks,
    /// and `renewed` told each time that it was.
    pub(crate) async fn connect(
        settings: Settings,
        clock: Clock,
        on_message: OnMessage,
        renewed: Arc<Notify>,
    ) -> std::result::Result<(Self, Eviction), Failure> {
        let link = Arc::new(watch::Sender::new(Link::Down(closed())));
        let (address, inbox) = (settings.address(), settings.inbox.clone());
        let life = life(settings.remember, settings.ttl).to_string();
        // As soon as one renewal was not answered: there is time for another, on a new connection.
        let patience = settings.request_timeout.min(renewal_period(settings.ttl));
        let incarnation = Arc::new(Incarnation {
            run_id: Mutex::new(None),
            since: AtomicU64::new(Moment::PAST.as_nanos()),
        });
        let (weak, server) = (Arc::downgrade(&link), Arc::clone(&incarnation));
        let dialler = Dialler { settings, clock: clock.clone(), link: weak, on_message, incarnation: server };
        let (wire, eviction) = dialler.dial(0, Duration::MAX).await?;
        link.send_replace(Link::Up(wire));
        tokio::spawn(dialler.keep_dialling(link.subscribe(), renewed));
        let silent_since = AtomicU64::new(Moment::NEVER.as_nanos());
        let heard_at = AtomicU64::new(clock.now().as_nanos());
        Ok((
            Self { clock, link, address, inbox, life, patience, silent_since, heard_at, incarnation },
            eviction,
        ))
    }

    /// Runs a script, and answers when it was sent: what the reply proves counts from there.
    ///
    /// # Errors
    /// `Unavailable` when it was surely not carried out, `Unknown` when it may have been, `Closed`, or what the
    /// server said.
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<(Moment, Reply)> {
        self.request(&self.invocation("EVALSHA", sha1(call.script), call), Some(call), within).await
    }

    /// Runs scripts in one burst: one answer each.
    pub(crate) async fn run_all<'a>(
        &self,
        calls: impl IntoIterator<Item = &'a Call>,
        within: Duration,
    ) -> Vec<Result<(Moment, Reply)>> {
        join_all(calls.into_iter().map(|call| self.run(call, within))).await
    }

    fn invocation(&self, how: &str, script: &str, call: &Call) -> Cmd {
        let mut command = invocation(how, script, call);
        command.arg(&self.life);
        command
    }

    /// Since when the server is the one it is now; `Moment::PAST` while it is the first.
    pub(crate) fn incarnation_since(&self) -> Moment {
        Moment::from_nanos(self.incarnation.since.load(Ordering::Acquire))
    }

    /// Waits, each time, until the connection is lost; `None` once the driver is closed or gone.
    pub(crate) fn losses(&self) -> Losses {
        Losses(self.link.subscribe())
    }

    /// Asks whether the server answers.
    pub(crate) async fn ping(&self, within: Duration) -> Result<Moment> {
        let mut command = Cmd::new();
        command.arg("PING");
        self.request(&command, None, within).await.map(|(sent, _)| sent)
    }

    /// Gives the inbox up and disconnects.
    pub(crate) async fn close(&self, within: Duration) {
        if let Some(mut wire) = self.up_now() {
            let answer = tokio::time::timeout(within, wire.connection.unsubscribe(&self.inbox)).await;
            // The server unsubscribes whoever disconnects.
            tracing::trace!(?answer, "unsubscribed");
        }
        self.cut();
    }

    /// Disconnects without a word.
    pub(crate) fn cut(&self) {
        self.link.send_replace(Link::Closed);
    }

    async fn request(&self, command: &Cmd, call: Option<&Call>, within: Duration) -> Result<(Moment, Reply)> {
        // Before the bound is set, or a request that times out would have been silent for a little less.
        let asked = self.clock.now();
        let mut sent = asked;
        let name = call.map_or("PING", |call| call.script.name);
        let tried = |error: Error| error.tried(name, &self.address, self.clock.now().since(asked));
        let until = tokio::time::Instant::now() + within;
        let mut wire = match self.up_now() {
            Some(wire) => wire,
            None => {
                let Ok(wire) = tokio::time::timeout_at(until, self.up()).await else {
                    return Err(tried(self.not_connected()));
                };
                sent = self.clock.now();
                wire?
            }
        };
        let mut answer = self.answer(&mut wire, command, until).await;
        if let (Err(failure), Some(call)) = (&answer, call)
            && failure.noscript
        {
            // Flushed, or a new server. The text is sent with the call, so that one trip more is enough.
            let whole = self.invocation("EVAL", call.script.text(), call);
            sent = self.clock.now();
            self.heard(sent);
            answer = self.answer(&mut wire, &whole, until).await;
        }
        match answer {
            Ok(value) => {
                self.heard(self.clock.now());
                Ok((sent, reply(value)))
            }
            Err(failure) => {
                let error = tried(failure.error);
                if failure.redial || failure.timed_out && self.is_silent(sent, self.patience.min(within)) {
                    take_down(&self.link, wire.generation, &error);
                }
                tracing::debug!(%error, request = name, "a request failed");
                Err(error)
            }
        }
    }

    /// The answer, unless the wire is given up first: what is in flight on a connection that swallows everything is to be
    /// asked again on the next one, and not when its own time is over.
    async fn answer(
        &self,
        wire: &mut Wire,
        command: &Cmd,
        until: tokio::time::Instant,
    ) -> std::result::Result<Value, Failure> {
        let (mut link, generation) = (self.link.subscribe(), wire.generation);
        tokio::select! {
            biased;
            answer = wire.answer(command, until) => answer,
            // Gone with the driver, where that is what ended.
            answer = link.wait_for(|link| !link.is_up(generation)) => Err(given_up(answer.ok().and_then(|link| link.why()))),
        }
    }

    /// The server has answered.
    fn heard(&self, now: Moment) {
        self.heard_at.store(now.as_nanos(), Ordering::Relaxed);
        self.silent_since.store(Moment::NEVER.as_nanos(), Ordering::Relaxed);
    }

    /// Whether the server has been silent for too long, now that a request sent at `sent` got no answer. One that
    /// answers others meanwhile is merely slow; a connection that swallows everything is dialled again.
    fn is_silent(&self, sent: Moment, patience: Duration) -> bool {
        let before = self.silent_since.fetch_min(sent.as_nanos(), Ordering::Relaxed);
        let since = Moment::from_nanos(before)
            .min(sent)
            .max(Moment::from_nanos(self.heard_at.load(Ordering::Relaxed)));
        self.clock.now().since(since) >= patience
    }

    /// With the reason, where dialling again has met one: a server that is a replica now will not be reached by waiting.
    fn not_connected(&self) -> Error {
        let error = Error::new(ErrorKind::Unavailable, "not connected");
        match self.link.borrow().why() {
            Some(why) => error.because(why),
            None => error,
        }
    }

    fn up_now(&self) -> Option<Wire> {
        match &*self.link.borrow() {
            Link::Up(wire) => Some(wire.clone()),
            _ => None,
        }
    }

    async fn up(&self) -> Result<Wire> {
        let mut link = self.link.subscribe();
        loop {
            match &*link.borrow_and_update() {
                Link::Up(wire) => return Ok(wire.clone()),
                Link::Closed => return Err(Error::closed()),
                Link::Down(_) => {}
            }
            if link.changed().await.is_err() {
                return Err(Error::closed());
            }
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = match &*self.link.borrow() {
            Link::Up(_) => "up",
            Link::Down(_) => "down",
            Link::Closed => "closed",
        };
        f.debug_struct("Driver").field("inbox", &self.inbox).field("link", &link).finish()
    }
}

/// A connection of this generation is of no use; a newer one stays.
fn take_down(link: &watch::Sender<Link>, generation: u64, why: &Error) {
    link.send_if_modified(|link| {
        let current = link.is_up(generation);
        if current {
            *link = Link::Down(why.clone());
        }
        current
    });
}

fn invocation(how: &str, script: &str, Call { keys, args, .. }: &Call) -> Cmd {
    let mut command =
        Cmd::with_capacity(4 + keys.len() + args.len(), script.len() + keys.size() + args.size() + 32);
    command.arg(how).arg(script).arg(keys.len());
    keys.iter().chain(args.iter()).for_each(|word| {
        command.arg(word);
    });
    command
}

fn sha1(script: &scripts::Script) -> &'static str {
    static HASHES: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
        let hash =
            |script: &&'static scripts::Script| redis::Script::new(script.text()).get_hash().to_owned();
        scripts::ALL.iter().map(|script| (script.name, hash(script))).collect()
    });
    let found = HASHES.iter().find(|(name, _)| *name == script.name);
    found.map_or("", |(_, hash)| hash)
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Int(value) => Reply::Int(value),
        Value::BulkString(text) => Reply::Text(text),
        Value::SimpleString(text) => Reply::Text(text.into_bytes()),
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect()),
        _ => Reply::Nil,
    }
}
