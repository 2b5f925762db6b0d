use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::LinkLog;
use latchwork_core::backend::decide::renewal_period;
use latchwork_core::seen::Requests;
use latchwork_core::{Clock, Error, ErrorKind, Eviction, Moment, Result};
use redis::Cmd;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::command::{by_hash, by_text, reply};
use super::dial::{Dialler, Setup};
use super::incarnation::Incarnation;
use super::link::{Link, Losses, Wire, take_down};
use super::silence::Silence;
use super::switches::{self, Followed};
use crate::config::{NAME, Servers};
use crate::error::{Again, Answer, Failure, closed, given_up};
use crate::layout::life;
use crate::scripts::{self, Call, Reply};

const OWN: [&str; 8] =
    ["CLUSTER SLOTS", "CONFIG GET", "INFO", "PING", "SCAN", "SUBSCRIBE", "TIME", "UNSUBSCRIBE"];

pub(super) struct Server {
    pub(super) clock: Clock,
    pub(super) link: Arc<watch::Sender<Link>>,
    // With Sentinels, these name the host.
    address: String,
    inbox: String,
    life: String,
    pub(super) silence: Silence,
    pub(super) incarnation: Arc<Incarnation>,
    pub(super) requests: Requests,
}

impl Server {
    /// Also returns whether the server evicts locks.
    pub(super) async fn connect(setup: Setup) -> Answer<(Self, Eviction)> {
        let (server, dialler) = Self::new(setup);
        let (wire, eviction) = dialler.dial(0, Duration::MAX).await?;
        server.link.send_replace(Link::Up(wire));
        server.begin(dialler);
        Ok((server, eviction))
    }

    pub(super) fn dialling(setup: Setup) -> Self {
        let (server, dialler) = Self::new(setup);
        server.begin(dialler);
        server
    }

    fn new(setup: Setup) -> (Self, Dialler) {
        let link = Arc::new(watch::Sender::new(Link::Down(closed())));
        let Setup { settings, clock, .. } = &setup;
        // An unanswered renewal takes this long, and leaves time for another one on a new connection.
        let patience = settings.request_timeout.min(renewal_period(settings.ttl));
        let server = Self {
            clock: clock.clone(),
            link: Arc::clone(&link),
            address: settings.servers.to_string(),
            inbox: settings.inbox.clone(),
            life: life(settings.remember, settings.ttl).to_string(),
            silence: Silence::new(patience, clock.now()),
            incarnation: Arc::new(Incarnation::new()),
            requests: Requests::new(
                NAME,
                OWN.into_iter().chain(scripts::ALL.iter().map(|script| script.name)),
            ),
        };
        let incarnation = Arc::clone(&server.incarnation);
        (server, Dialler { setup, incarnation, link: Arc::downgrade(&link), word: Arc::default() })
    }

    fn begin(&self, dialler: Dialler) {
        let servers = dialler.setup.settings.servers.clone();
        let followed = Followed { link: Arc::downgrade(&self.link), word: Arc::clone(&dialler.word) };
        let log = LinkLog::new(NAME, &self.address);
        tokio::spawn(dialler.keep_dialling(self.link.subscribe(), log));
        if let Servers::Watched(sentinels) = servers {
            tokio::spawn(switches::follow(sentinels, self.silence.patience, followed));
        }
    }

    pub(super) fn losses(&self) -> Losses {
        Losses(self.link.subscribe())
    }

    pub(super) async fn ask(&self, name: &'static str, command: &Cmd, within: Duration) -> Result<Reply> {
        Ok(self.request(Request::Command(name, command), None, within).await?.1)
    }

    pub(super) fn why_down(&self) -> Option<Error> {
        self.link.borrow().why()
    }

    pub(super) fn is_up(&self) -> bool {
        self.up_now().is_some()
    }

    pub(super) async fn close(&self, within: Duration) {
        if let Some(mut wire) = self.up_now() {
            let answer = timeout(within, wire.connection.unsubscribe(&self.inbox)).await;
            // A disconnect unsubscribes too.
            tracing::trace!(?answer, "unsubscribed");
        }
        self.cut();
    }

    pub(super) fn cut(&self) {
        self.link.send_replace(Link::Closed);
    }

    /// Also returns when the request was sent: a proof by the reply counts from there. `within`: the time
    /// that the call had at its start, which decides whether the server counts as silent.
    ///
    /// # Errors
    /// `Unavailable` if the request was not carried out, `OutcomeUnknown` if it may have been, `Closed`, or
    /// the server's error.
    pub(super) async fn request(
        &self,
        request: Request<'_>,
        chosen: Option<Chosen>,
        within: Duration,
    ) -> Answer<(Moment, Reply)> {
        let (name, mut script, mut command) = match request {
            Request::Script(call) => (call.script.name, Some(call), Cow::Owned(by_hash(call, &self.life))),
            Request::Command(name, command) => (name, None, Cow::Borrowed(command)),
        };
        // Before the bound is set: the whole time of a request counts as silence.
        let mut asked = self.clock.now();
        let (wire, asks, until) = match chosen {
            Some(Chosen { wire, asks, until }) => (Some(wire), asks, until),
            None => (self.up_now(), false, Instant::now() + within),
        };
        let mut wire = match wire {
            Some(wire) => wire,
            None => {
                let Ok(wire) = timeout_at(until, self.up()).await else {
                    let took = self.clock.now().since(asked);
                    return Err(Failure::said(self.not_connected().tried(name, &self.address, took)));
                };
                asked = self.clock.now();
                wire.map_err(Failure::said)?
            }
        };
        let mut sent = asked;
        let (mut link, generation) = (self.link.subscribe(), wire.generation);
        loop {
            self.requests.sent(name);
            let answer = tokio::select! {
                biased;
                answer = wire.answer(&command, asks, until) => answer,
                // The request goes to the next connection before its time is over.
                down = link.wait_for(|link| !link.is_up(generation)) => {
                    Err(given_up(down.ok().and_then(|link| link.why())))
                }
            };
            let failure = match answer {
                Ok(value) => {
                    self.silence.end(self.clock.now());
                    return Ok((sent, reply(value)));
                }
                Err(failure) => failure,
            };
            if let (Some(Again::WithText), Some(call)) = (&failure.again, script.take()) {
                // A flushed or a new server. With the text, no third trip is needed.
                command = Cow::Owned(by_text(call, &self.life));
                sent = self.clock.now();
                self.silence.end(sent);
                continue;
            }
            let now = self.clock.now();
            let error = failure.error.tried(name, &wire.host.to_string(), now.since(asked));
            let is_silent = || failure.timed_out && self.silence.is_too_long(sent, within, now);
            if failure.redial || is_silent() {
                take_down(&self.link, generation, &error);
            }
            tracing::debug!(%error, request = name, "a request failed");
            return Err(Failure { error, ..failure });
        }
    }

    /// With the reason of the failed dial: waiting is useless if the server is a replica now.
    pub(super) fn not_connected(&self) -> Error {
        Error::new(ErrorKind::Unavailable, "not connected").because_of(self.link.borrow().why())
    }

    pub(super) fn up_now(&self) -> Option<Wire> {
        match &*self.link.borrow() {
            Link::Up(wire) => Some(wire.clone()),
            _ => None,
        }
    }

    pub(super) async fn up(&self) -> Result<Wire> {
        let mut link = self.link.subscribe();
        match link.wait_for(|link| !matches!(link, Link::Down(_))).await.as_deref() {
            Ok(Link::Up(wire)) => Ok(wire.clone()),
            _ => Err(Error::closed()),
        }
    }
}

pub(super) enum Request<'a> {
    Script(&'a Call),
    Command(&'static str, &'a Cmd),
}

pub(super) struct Chosen {
    pub(super) wire: Wire,
    /// The slot is being moved to this server.
    pub(super) asks: bool,
    pub(super) until: Instant,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("inbox", &self.inbox).field("link", &*self.link.borrow()).finish()
    }
}
