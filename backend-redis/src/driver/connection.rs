//! Requests to one server, on whichever connection stands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::decide::renewal_period;
use latchwork_core::seen::Requests;
use latchwork_core::support::LinkLog;
use latchwork_core::{Clock, Error, ErrorKind, Eviction, Moment, Result};
use redis::{Cmd, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::command::{by_hash, by_text, reply};
use super::dial::{Dialler, OnMessage};
use super::incarnation::Incarnation;
use super::link::{Link, Losses, Wire, take_down};
use super::silence::Silence;
use super::switches::{self, Followed};
use crate::config::{NAME, Servers, Settings};
use crate::error::{Failure, closed, given_up};
use crate::layout::life;
use crate::scripts::{self, Call, Reply};

/// The requests that are no scripts.
const OWN: [&str; 8] =
    ["CLUSTER SLOTS", "CONFIG GET", "INFO", "PING", "SCAN", "SUBSCRIBE", "TIME", "UNSUBSCRIBE"];

/// A connection that is replaced as long as the driver lives.
pub(super) struct Server {
    pub(super) clock: Clock,
    pub(super) link: Arc<watch::Sender<Link>>,
    // Host and port, or the Sentinels that know it.
    address: String,
    inbox: String,
    // The last argument of every script.
    life: String,
    pub(super) silence: Silence,
    incarnation: Arc<Incarnation>,
    pub(super) requests: Requests,
}

impl Server {
    /// Dials, and answers whether the server evicts locks. From then on a broken connection is
    /// replaced, and `reconnected` is notified each time.
    pub(super) async fn connect(
        settings: Settings,
        clock: Clock,
        on_message: OnMessage,
        reconnected: Arc<Notify>,
    ) -> std::result::Result<(Self, Eviction), Failure> {
        let (server, dialler) = Self::new(settings, clock, on_message);
        let (wire, eviction) = dialler.dial(0, Duration::MAX).await?;
        server.link.send_replace(Link::Up(wire));
        server.begin(dialler, reconnected);
        Ok((server, eviction))
    }

    /// As one whose connection is broken: it dials in the background.
    pub(super) fn dialling(
        settings: Settings,
        clock: Clock,
        on_message: OnMessage,
        reconnected: Arc<Notify>,
    ) -> Self {
        let (server, dialler) = Self::new(settings, clock, on_message);
        server.begin(dialler, reconnected);
        server
    }

    fn new(settings: Settings, clock: Clock, on_message: OnMessage) -> (Self, Dialler) {
        let link = Arc::new(watch::Sender::new(Link::Down(closed())));
        let (address, inbox) = (settings.servers.to_string(), settings.inbox.clone());
        let life = life(settings.remember, settings.ttl).to_string();
        // As long as one unanswered renewal takes: there is time for another, on a new connection.
        let patience = settings.request_timeout.min(renewal_period(settings.ttl));
        let incarnation = Arc::new(Incarnation::new());
        let dialler = Dialler {
            settings,
            clock: clock.clone(),
            incarnation: Arc::clone(&incarnation),
            link: Arc::downgrade(&link),
            on_message,
            word: Arc::default(),
        };
        let silence = Silence::new(patience, clock.now());
        let requests =
            Requests::new(NAME, OWN.into_iter().chain(scripts::ALL.iter().map(|script| script.name)));
        (Self { clock, link, address, inbox, life, silence, incarnation, requests }, dialler)
    }

    fn begin(&self, dialler: Dialler, reconnected: Arc<Notify>) {
        let servers = dialler.settings.servers.clone();
        let followed = Followed { link: Arc::downgrade(&self.link), word: Arc::clone(&dialler.word) };
        let log = LinkLog::new(NAME, &self.address);
        tokio::spawn(dialler.keep_dialling(self.link.subscribe(), log, reconnected));
        if let Servers::Watched(sentinels) = servers {
            tokio::spawn(switches::follow(sentinels, self.silence.patience(), followed));
        }
    }

    /// Runs a script, and answers when it was sent: what the reply proves counts from there.
    ///
    /// # Errors
    /// `Unavailable` when it surely was not carried out, `OutcomeUnknown` when it may have been, `Closed`,
    /// or the server's own error.
    pub(super) async fn run(&self, call: &Call, within: Duration) -> Result<(Moment, Reply)> {
        let mut command = by_hash(call);
        command.arg(&self.life);
        self.request(call.script.name, &command, Some(call), within).await
    }

    /// Since when the server is the present one; `Moment::PAST` for the first.
    pub(super) fn incarnation_since(&self) -> Moment {
        self.incarnation.since()
    }

    /// Whether a connection to this run of a server leads to the one that this connection leads to.
    pub(super) fn leads_to(&self, run_id: Option<&str>) -> bool {
        self.incarnation.is(run_id)
    }

    /// The run id of the server behind the present connection, or the last one; `None` if it does
    /// not say. No request is sent to a server before its run id is known here.
    pub(super) fn run_id(&self) -> Option<String> {
        self.incarnation.run_id()
    }

    pub(super) fn losses(&self) -> Losses {
        Losses::of(self.link.subscribe())
    }

    /// Asks what is no script.
    pub(super) async fn ask(&self, name: &'static str, command: &Cmd, within: Duration) -> Result<Reply> {
        self.request(name, command, None, within).await.map(|(_, reply)| reply)
    }

    /// As [`ask`](Self::ask): when it was sent.
    pub(super) async fn ask_at(&self, name: &'static str, command: &Cmd, within: Duration) -> Result<Moment> {
        self.request(name, command, None, within).await.map(|(sent, _)| sent)
    }

    /// Why there is no connection.
    pub(super) fn why_down(&self) -> Option<Error> {
        self.link.borrow().why()
    }

    pub(super) fn is_up(&self) -> bool {
        self.up_now().is_some()
    }

    /// Unsubscribes and disconnects.
    pub(super) async fn close(&self, within: Duration) {
        if let Some(mut wire) = self.up_now() {
            let answer = timeout(within, wire.connection.unsubscribe(&self.inbox)).await;
            // A disconnect unsubscribes too.
            tracing::trace!(?answer, "unsubscribed");
        }
        self.cut();
    }

    /// Disconnects, and sends nothing more.
    pub(super) fn cut(&self) {
        self.link.send_replace(Link::Closed);
    }

    async fn request(
        &self,
        name: &'static str,
        command: &Cmd,
        call: Option<&Call>,
        within: Duration,
    ) -> Result<(Moment, Reply)> {
        // Before the bound is set: a request that times out counts with its whole time as silence.
        let asked = self.clock.now();
        let until = Instant::now() + within;
        let (wire, sent) = match self.up_now() {
            Some(wire) => (wire, asked),
            None => {
                let Ok(wire) = timeout_at(until, self.up()).await else {
                    let took = self.clock.now().since(asked);
                    return Err(self.not_connected().tried(name, &self.address, took));
                };
                (wire?, self.clock.now())
            }
        };
        let request = Request { name, command, call, asks: false };
        self.answered(wire, request, sent, until, within).await.map_err(|failure| failure.error)
    }

    /// Runs a script on a connection that stands; it `asks` for a slot that is being moved. `within`: what the call
    /// had when it began, of which redirections may have left little. A silence is judged by that.
    pub(super) async fn run_on(
        &self,
        wire: Wire,
        call: &Call,
        asks: bool,
        until: Instant,
        within: Duration,
    ) -> std::result::Result<(Moment, Reply), Failure> {
        let mut command = by_hash(call);
        command.arg(&self.life);
        let request = Request { name: call.script.name, command: &command, call: Some(call), asks };
        self.answered(wire, request, self.clock.now(), until, within).await
    }

    async fn answered(
        &self,
        mut wire: Wire,
        request: Request<'_>,
        mut sent: Moment,
        until: Instant,
        within: Duration,
    ) -> std::result::Result<(Moment, Reply), Failure> {
        let (asked, Request { name, command, call, asks }) = (sent, request);
        self.requests.sent(name);
        let mut answer = self.answer(&mut wire, command, asks, until).await;
        if let (Err(failure), Some(call)) = (&answer, call)
            && failure.noscript
        {
            // A flushed or a new server. The text goes with the call, which costs one more trip and
            // no third.
            let mut command = by_text(call);
            command.arg(&self.life);
            sent = self.clock.now();
            self.silence.end(sent);
            self.requests.sent(name);
            answer = self.answer(&mut wire, &command, asks, until).await;
        }
        match answer {
            Ok(value) => {
                self.silence.end(self.clock.now());
                Ok((sent, reply(value)))
            }
            Err(failure) => {
                let took = self.clock.now().since(asked);
                let error = failure.error.tried(name, &wire.host.to_string(), took);
                let is_silent =
                    || failure.timed_out && self.silence.is_too_long(sent, within, self.clock.now());
                if failure.redial || is_silent() {
                    take_down(&self.link, wire.generation, &error);
                }
                tracing::debug!(%error, request = name, "a request failed");
                Err(Failure { error, ..failure })
            }
        }
    }

    /// The answer, unless the connection is given up first: the next one is asked at once, and not
    /// when this request's time is over.
    async fn answer(
        &self,
        wire: &mut Wire,
        command: &Cmd,
        asks: bool,
        until: Instant,
    ) -> std::result::Result<Value, Failure> {
        let (mut link, generation) = (self.link.subscribe(), wire.generation);
        tokio::select! {
            biased;
            answer = wire.answer(command, asks, until) => answer,
            down = link.wait_for(|link| !link.is_up(generation)) => {
                // No reason where the driver itself has ended.
                Err(given_up(down.ok().and_then(|link| link.why())))
            }
        }
    }

    /// With the reason that dialling has met: waiting does not help when the server is a replica
    /// now.
    pub(super) fn not_connected(&self) -> Error {
        Error::new(ErrorKind::Unavailable, "not connected").because_of(self.link.borrow().why())
    }

    pub(super) fn up_now(&self) -> Option<Wire> {
        match &*self.link.borrow() {
            Link::Up(wire) => Some(wire.clone()),
            _ => None,
        }
    }

    /// The connection that stands, or the next one.
    pub(super) async fn up(&self) -> Result<Wire> {
        let mut link = self.link.subscribe();
        match link.wait_for(|link| !matches!(link, Link::Down(_))).await.as_deref() {
            Ok(Link::Up(wire)) => Ok(wire.clone()),
            _ => Err(Error::closed()),
        }
    }
}

/// What is sent.
struct Request<'a> {
    name: &'static str,
    command: &'a Cmd,
    // A script that the server may not know.
    call: Option<&'a Call>,
    // For a slot that is being moved to this server.
    asks: bool,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("inbox", &self.inbox).field("link", &*self.link.borrow()).finish()
    }
}
