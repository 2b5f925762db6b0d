//! The one connection to the server, for commands and messages: the only file that calls the client crate.
//!
//! A connection that breaks, or whose server turns out to be no master any more, is replaced by dialling again:
//! name resolution, login, checks and subscription anew. (The crate's own connection manager reconnects too, but stays
//! with a demoted master for ever, and ignores a refused subscription.)

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::{Clock, Error, ErrorKind, Eviction, Moment, Result};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, PushInfo,
    PushKind, RedisConnectionInfo, Value,
};
use tokio::sync::{Notify, watch};

use crate::config::Settings;
use crate::error::{Failure, from_redis, timed_out};
use crate::info;
use crate::scripts::{self, Call, Reply};

/// The longest pause between two attempts to dial.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Requests that may wait to be written: an acquire must not queue behind a burst of renewals.
const BUFFER: usize = 4096;

/// Receives the messages of the own inbox, as they come, on the connection's task: it must not block.
pub(crate) type OnMessage = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A connection that is renewed as long as the driver lives.
pub(crate) struct Driver {
    clock: Clock,
    link: Arc<watch::Sender<Link>>,
    inbox: String,
}

enum Link {
    Up(Wire),
    Down,
    Closed,
}

#[derive(Clone)]
struct Wire {
    generation: u64,
    connection: MultiplexedConnection,
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
        let link = Arc::new(watch::Sender::new(Link::Down));
        let inbox = settings.inbox.clone();
        let dialler = Dialler { settings, link: Arc::downgrade(&link), on_message };
        let (wire, eviction) = dialler.dial(0).await?;
        link.send_replace(Link::Up(wire));
        tokio::spawn(dialler.keep_dialling(link.subscribe(), renewed));
        Ok((Self { clock, link, inbox }, eviction))
    }

    /// Runs a script, and answers when it was sent: what the reply proves counts from there.
    ///
    /// # Errors
    /// `Unavailable` when it was surely not carried out, `Unknown` when it may have been, `Closed`, or what the
    /// server said.
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<(Moment, Reply)> {
        let mut command = Cmd::new();
        let hash = sha1(call.script);
        command.arg("EVALSHA").arg(hash);
        operands(&mut command, call);
        self.request(&command, Some(call), within).await
    }

    /// Runs scripts in one burst: one answer each.
    pub(crate) async fn run_all(&self, calls: &[Call], within: Duration) -> Vec<Result<(Moment, Reply)>> {
        join_all(calls.iter().map(|call| self.run(call, within))).await
    }

    /// Asks whether the server answers.
    pub(crate) async fn ping(&self, within: Duration) -> Result<Moment> {
        let mut command = Cmd::new();
        command.arg("PING");
        self.request(&command, None, within).await.map(|(sent, _)| sent)
    }

    /// Gives the inbox up and disconnects.
    pub(crate) async fn close(&self, within: Duration) {
        let wire = match &*self.link.borrow() {
            Link::Up(wire) => Some(wire.clone()),
            _ => None,
        };
        if let Some(mut wire) = wire {
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
        let until = tokio::time::Instant::now() + within;
        let mut wire = match tokio::time::timeout_at(until, self.up()).await {
            Ok(wire) => wire?,
            Err(_) => return Err(Error::new(ErrorKind::Unavailable, "not connected")),
        };
        let mut sent = self.clock.now();
        let mut answer = within_time(until, wire.connection.req_packed_command(command)).await;
        if let (Err(failure), Some(call)) = (&answer, call)
            && failure.noscript
        {
            // Flushed, or a new server. The text is sent with the call, so that one trip more is enough.
            let mut whole = Cmd::new();
            whole.arg("EVAL").arg(call.script.code);
            operands(&mut whole, call);
            sent = self.clock.now();
            answer = within_time(until, wire.connection.req_packed_command(&whole)).await;
        }
        match answer {
            Ok(value) => Ok((sent, reply(value))),
            Err(failure) => {
                if failure.redial {
                    take_down(&self.link, wire.generation);
                }
                let name = call.map_or("ping", |call| call.script.name);
                tracing::debug!(error = %failure.error, request = name, "a request failed");
                Err(failure.error)
            }
        }
    }

    async fn up(&self) -> Result<Wire> {
        let mut link = self.link.subscribe();
        loop {
            match &*link.borrow_and_update() {
                Link::Up(wire) => return Ok(wire.clone()),
                Link::Closed => return Err(Error::closed()),
                Link::Down => {}
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
            Link::Down => "down",
            Link::Closed => "closed",
        };
        f.debug_struct("Driver").field("inbox", &self.inbox).field("link", &link).finish()
    }
}

/// A connection of this generation is of no use; a newer one stays.
fn take_down(link: &watch::Sender<Link>, generation: u64) {
    link.send_if_modified(|link| {
        let current = matches!(link, Link::Up(wire) if wire.generation == generation);
        if current {
            *link = Link::Down;
        }
        current
    });
}

async fn within_time(
    until: tokio::time::Instant,
    answer: redis::RedisFuture<'_, Value>,
) -> std::result::Result<Value, Failure> {
    match tokio::time::timeout_at(until, answer).await {
        Ok(answer) => answer.and_then(Value::extract_error).map_err(|error| from_redis(error, true)),
        Err(_) => Err(timed_out(true)),
    }
}

struct Dialler {
    settings: Settings,
    link: std::sync::Weak<watch::Sender<Link>>,
    on_message: OnMessage,
}

impl Dialler {
    async fn keep_dialling(self, mut link: watch::Receiver<Link>, renewed: Arc<Notify>) {
        let mut generation = 0;
        // Ends with the driver, or when it is closed.
        while let Ok(state) =
            link.wait_for(|link| !matches!(link, Link::Up(_))).await.map(|link| is_closed(&link))
        {
            if state {
                return;
            }
            generation += 1;
            let mut pause = Duration::from_millis(10);
            let wire = loop {
                let dialled = tokio::select! {
                    dialled = self.dial(generation) => dialled,
                    _ = link.wait_for(is_closed) => return,
                };
                match dialled {
                    Ok((wire, _)) => break wire,
                    Err(failure) => tracing::debug!(error = %failure.error, "not reconnected yet"),
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = link.wait_for(is_closed) => return,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            };
            let Some(link) = self.link.upgrade() else { return };
            let up = link.send_if_modified(|link| {
                let down = matches!(link, Link::Down);
                if down {
                    *link = Link::Up(wire);
                }
                down
            });
            if up {
                tracing::info!(host = %self.settings.host, "reconnected");
                // Messages may have been lost meanwhile: all nodes are to be looked at.
                renewed.notify_one();
            }
        }
    }

    /// TCP, login, database, name, what the server is, scripts, inbox, and the self-test.
    async fn dial(&self, generation: u64) -> std::result::Result<(Wire, Eviction), Failure> {
        let settings = &self.settings;
        let link = self.link.clone();
        let on_message = Arc::clone(&self.on_message);
        let on_push = move |push: PushInfo| -> std::result::Result<(), std::convert::Infallible> {
            match push.kind {
                PushKind::Message => {
                    if let Some(Value::BulkString(message)) = push.data.get(1) {
                        on_message(message);
                    }
                }
                PushKind::Disconnection => {
                    if let Some(link) = link.upgrade() {
                        take_down(&link, generation);
                    }
                }
                _ => {}
            }
            Ok(())
        };
        let bound = settings.request_timeout.min(settings.connect_timeout / 2);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(bound))
            .set_response_timeout(Some(bound))
            .set_pipeline_buffer_size(BUFFER)
            .set_push_sender(on_push);
        let unsent = |error| from_redis(error, false);
        let client = Client::open(connection_info(settings).map_err(unsent)?).map_err(unsent)?;
        let mut connection =
            client.get_multiplexed_async_connection_with_config(&config).await.map_err(unsent)?;

        let mut name = redis::cmd("CLIENT");
        name.arg("SETNAME").arg(&settings.client_name);
        if let Err(error) = name.exec_async(&mut connection).await {
            tracing::debug!(%error, "the connection has no name");
        }
        let info = match redis::cmd("INFO").query_async::<String>(&mut connection).await {
            Ok(info) => Some(info),
            Err(error) if error.code() == Some("NOPERM") => None,
            Err(error) => return Err(unsent(error)),
        };
        // Before anything is written: a replica refuses that without saying what it is.
        let eviction = info::judge(info.as_deref(), settings.strict).map_err(fatal)?;
        for script in scripts::ALL {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.code).exec_async(&mut connection).await.map_err(unsent)?;
        }
        // Answered when the server's Subscribe push is in: from here on no message is lost.
        connection
            .subscribe(&settings.inbox)
            .await
            .map_err(|error| name_forbidden(unsent(error), "SUBSCRIBE"))?;
        let call = scripts::selftest(settings.scratch.clone(), &settings.inbox);
        let mut test = Cmd::new();
        test.arg("EVALSHA").arg(sha1(call.script));
        operands(&mut test, &call);
        let answer = connection.req_packed_command(&test).await.and_then(Value::extract_error);
        let answer = answer.map_err(|error| name_forbidden(unsent(error), "EVALSHA"))?;
        if let Some((command, words)) = scripts::selftested(reply(answer)).map_err(fatal)? {
            let error = redis::RedisError::from((redis::ErrorKind::Extension, "self-test", words));
            return Err(name_forbidden(unsent(error), &command));
        }
        Ok((Wire { generation, connection }, eviction))
    }
}

fn is_closed(link: &Link) -> bool {
    matches!(link, Link::Closed)
}

/// What was forbidden, by name.
fn name_forbidden(failure: Failure, command: &str) -> Failure {
    if !matches!(failure.error.kind(), ErrorKind::Forbidden { .. }) {
        return failure;
    }
    let what = format!("{command} (needed on the keys and channels of the namespace)");
    let words = failure.error.to_string();
    Failure { error: Error::new(ErrorKind::Forbidden { what }, words), ..failure }
}

fn fatal(error: Error) -> Failure {
    Failure { error, redial: false, noscript: false, answered: true }
}

fn connection_info(settings: &Settings) -> redis::RedisResult<redis::ConnectionInfo> {
    let mut login =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(settings.database);
    if let Some(user) = &settings.user {
        login = login.set_username(user);
    }
    if let Some(password) = &settings.password {
        login = login.set_password(password.expose());
    }
    let address = ConnectionAddr::Tcp(settings.host.clone(), settings.port);
    Ok(address.into_connection_info()?.set_redis_settings(login))
}

fn operands(command: &mut Cmd, call: &Call) {
    command.arg(call.keys.len()).arg(&call.keys).arg(&call.args);
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
