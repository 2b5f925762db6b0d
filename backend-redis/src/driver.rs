//! The one connection to the server, for commands and messages: the only place that calls the client crate.
//!
//! A connection that breaks, or whose server turns out to be no master any more, is replaced by dialling again:
//! name resolution, login, checks and subscription anew. (The crate's own connection manager reconnects too, but stays
//! with a demoted master for ever, and ignores a refused subscription.)

mod dial;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::decide::renewal_period;
use latchwork_core::{Clock, Error, ErrorKind, Eviction, Moment, Result};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::{Notify, watch};

use self::dial::Dialler;
use crate::config::Settings;
use crate::error::{Failure, from_redis, given_up, timed_out};
use crate::scripts::{self, Call, Reply};

/// Receives the messages of the own inbox, as they come, on the connection's task: it must not block.
pub(crate) type OnMessage = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A connection that is renewed as long as the driver lives.
pub(crate) struct Driver {
    clock: Clock,
    link: Arc<watch::Sender<Link>>,
    inbox: String,
    // How long a server may be silent before another connection is tried.
    patience: Duration,
    // When the first request was sent that timed out since the last answer.
    silent_since: AtomicU64,
    // When the last answer came.
    heard_at: AtomicU64,
}

enum Link {
    Up(Wire),
    /// With what the last dialling came to, once there was one.
    Down(Option<Error>),
    Closed,
}

impl Link {
    fn is_up(&self, generation: u64) -> bool {
        matches!(self, Link::Up(wire) if wire.generation == generation)
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

impl Driver {
    /// Dials, and answers whether the server evicts locks. From then on the connection is replaced when it breaks,
    /// and `renewed` told each time that it was.
    pub(crate) async fn connect(
        settings: Settings,
        clock: Clock,
        on_message: OnMessage,
        renewed: Arc<Notify>,
    ) -> std::result::Result<(Self, Eviction), Failure> {
        let link = Arc::new(watch::Sender::new(Link::Down(None)));
        let inbox = settings.inbox.clone();
        // As soon as one renewal was not answered: there is time for another, on a new connection.
        let patience = settings.request_timeout.min(renewal_period(settings.ttl));
        let dialler = Dialler { settings, link: Arc::downgrade(&link), on_message };
        let (wire, eviction) = dialler.dial(0, Duration::MAX).await?;
        link.send_replace(Link::Up(wire));
        tokio::spawn(dialler.keep_dialling(link.subscribe(), renewed));
        let silent_since = AtomicU64::new(Moment::NEVER.as_nanos());
        let heard_at = AtomicU64::new(clock.now().as_nanos());
        Ok((Self { clock, link, inbox, patience, silent_since, heard_at }, eviction))
    }

    /// Runs a script, and answers when it was sent: what the reply proves counts from there.
    ///
    /// # Errors
    /// `Unavailable` when it was surely not carried out, `Unknown` when it may have been, `Closed`, or what the
    /// server said.
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<(Moment, Reply)> {
        self.request(&invocation("EVALSHA", sha1(call.script), call), Some(call), within).await
    }

    /// Runs scripts in one burst: one answer each.
    pub(crate) async fn run_all<'a>(
        &self,
        calls: impl IntoIterator<Item = &'a Call>,
        within: Duration,
    ) -> Vec<Result<(Moment, Reply)>> {
        join_all(calls.into_iter().map(|call| self.run(call, within))).await
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
        let mut sent = self.clock.now();
        let until = tokio::time::Instant::now() + within;
        let mut wire = match self.up_now() {
            Some(wire) => wire,
            None => {
                let Ok(wire) = tokio::time::timeout_at(until, self.up()).await else {
                    return Err(self.not_connected());
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
            let whole = invocation("EVAL", call.script.code, call);
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
                if failure.redial || failure.timed_out && self.is_silent(sent, self.patience.min(within)) {
                    take_down(&self.link, wire.generation);
                }
                let name = call.map_or("ping", |call| call.script.name);
                tracing::debug!(error = %failure.error, request = name, "a request failed");
                Err(failure.error)
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
            _ = link.wait_for(|link| !link.is_up(generation)) => Err(given_up()),
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
        match &*self.link.borrow() {
            Link::Down(Some(why)) => error.because(why.clone()),
            _ => error,
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
fn take_down(link: &watch::Sender<Link>, generation: u64) {
    link.send_if_modified(|link| {
        let current = link.is_up(generation);
        if current {
            *link = Link::Down(None);
        }
        current
    });
}

fn invocation(how: &str, script: &str, Call { keys, args, .. }: &Call) -> Cmd {
    let mut command =
        Cmd::with_capacity(3 + keys.len() + args.len(), script.len() + keys.size() + args.size() + 20);
    command.arg(how).arg(script).arg(keys.len());
    keys.iter().chain(args.iter()).for_each(|word| {
        command.arg(word);
    });
    command
}

fn sha1(script: &scripts::Script) -> &'static str {
    use std::sync::LazyLock;
    static HASHES: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
        let hash = |script: &&scripts::Script| redis::Script::new(script.code).get_hash().to_owned();
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
