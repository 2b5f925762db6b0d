//! The client crate's errors, translated here and nowhere else.

use latchwork_core::backend::Transport;
use latchwork_core::{Error, ErrorKind};
use redis::RedisError;

/// The answer of the server, or the reason why it is missing.
pub(crate) type Answer<T> = Result<T, Failure>;

/// A failed request: the error, and what the driver must do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The connection is useless (broken, or its server is no master any more): dial again.
    pub(crate) redial: bool,
    /// No answer in time: the connection may be useless.
    pub(crate) timed_out: bool,
    /// The server's own words: it is a Redis, and needs no probe.
    pub(crate) answered: bool,
    /// No answer came from here, where another server had sent the client: this may be no Redis.
    pub(crate) silent: Option<String>,
    /// It is a replica, and says so.
    pub(crate) is_replica: bool,
    /// Nothing was carried out, and it may be if the request is sent again so.
    pub(crate) again: Option<Again>,
}

/// How a request is sent again that the server has not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// With the text of its script, which the server does not know.
    WithText,
    /// To this server of the cluster, as all others of the slot.
    Moved(String),
    /// To this server of the cluster, once: the slot is being moved.
    Ask(String),
    /// A little later.
    Later,
}

impl Failure {
    fn new(kind: ErrorKind, context: &'static str) -> Self {
        Self::said(Error::new(kind, context))
    }

    /// An answer of the server, or what follows from one.
    pub(crate) fn said(error: Error) -> Self {
        Self {
            error,
            redial: false,
            timed_out: false,
            answered: true,
            silent: None,
            is_replica: false,
            again: None,
        }
    }

    /// What a replica says, which was taken for the master.
    pub(crate) fn replica(error: Error) -> Self {
        Self { is_replica: true, ..Self::said(error) }
    }

    /// Of two servers that failed: an answer says more than silence, else the first says it.
    pub(crate) fn or_more_telling(self, before: Option<Self>) -> Self {
        match before {
            Some(before) if before.answered || !self.answered => before,
            _ => self,
        }
    }

    /// With what TLS says of a connection that failed without an answer.
    pub(crate) fn secured_by(self, transport: &Transport) -> Self {
        match transport.failure() {
            Some(error) if !self.answered => Self { error, answered: true, ..self },
            _ => self,
        }
    }

    fn redial(self) -> Self {
        Self { redial: true, ..self }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// `sent`: the request may have reached the server. The scripts check before they write, so an
/// error answer means that nothing was written, and only a missing answer leaves the outcome
/// unknown.
pub(crate) fn from_redis(error: RedisError, sent: bool) -> Failure {
    // Redis 6.2 hides the code of an error inside a script among words, so the whole text is
    // searched.
    let text = format!("{} {error}", error.code().unwrap_or_default());
    let says = |code: &str| text.contains(code);
    let failure = if says("NOSCRIPT") {
        let failure = Failure::new(ErrorKind::Unavailable, "the server forgot a script");
        Failure { again: Some(Again::WithText), ..failure }
    } else if says("READONLY")
        || says("MASTERDOWN")
        || says("UNBLOCKED")
        || says("used with replica instances")
    {
        Failure::new(ErrorKind::Unavailable, "the server is no master now").redial()
    } else if says("LOADING") {
        Failure::new(ErrorKind::Unavailable, "the server is loading its data").redial()
    } else if says("NOAUTH") || says("WRONGPASS") || error.kind() == redis::ErrorKind::AuthenticationFailed {
        Failure::said(Error::forbidden("to log in", "user or password")).redial()
    } else if says("NOPERM") || says("can't run this command or subcommand") {
        Failure::said(Error::forbidden("a command, key or channel", "see the ACL of this user"))
    } else if says("command not allowed when used memory") {
        Failure::new(ErrorKind::Unavailable, "the server is out of memory")
    } else if says("NOREPLICAS") {
        Failure::new(ErrorKind::Unavailable, "too few replicas follow the server (min-replicas-to-write)")
    } else if says("MISCONF") {
        Failure::new(ErrorKind::Unavailable, "the server cannot save its data, and so takes no writes")
    } else if says("TRYAGAIN") || says("CLUSTERDOWN") {
        let why = "the cluster does not serve this slot now";
        Failure { again: Some(Again::Later), ..Failure::new(ErrorKind::Unavailable, why) }
    } else if says("BUSY ") {
        Failure::new(ErrorKind::Unavailable, "the server is busy")
    } else if let Some(key) = out_of_range(&text) {
        let what = format!(
            "a number in the key {key} is out of range (from 2^53 on): set it right, or delete the key"
        );
        Failure::said(Error::new(ErrorKind::Misconfigured, what))
    } else if says("WRONGTYPE") {
        Failure::new(ErrorKind::Conflict, "a key of this queue belongs to another program")
    } else if let Some((host, _)) = error.redirect_node() {
        let again = if error.code() == Some("ASK") { Again::Ask } else { Again::Moved };
        let again = Some(again(host.to_owned()));
        let why = "another server of a Redis Cluster has this key (redis-cluster://h1,h2)";
        Failure { again, ..Failure::new(ErrorKind::Misconfigured, why) }
    } else if error.kind() == redis::ErrorKind::RESP3NotSupported || says("unknown command `HELLO`") {
        Failure::new(ErrorKind::Misconfigured, "the server is older than Redis 6.2")
    } else if matches!(error.kind(), redis::ErrorKind::Server(_) | redis::ErrorKind::Extension) {
        Failure::new(ErrorKind::Misconfigured, "the server refused the request")
    } else {
        let kind = if sent { ErrorKind::OutcomeUnknown } else { ErrorKind::Unavailable };
        let why = if error.is_connection_refusal() {
            REFUSED
        } else if error.is_timeout() {
            SILENT
        } else if error.is_connection_dropped() {
            CLOSED
        } else {
            "no answer"
        };
        Failure { answered: false, ..Failure::new(kind, why).redial() }
    };
    Failure { error: failure.error.because(error), ..failure }
}

/// The key whose number a script refused as out of range.
fn out_of_range(text: &str) -> Option<&str> {
    let (_, key) = text.split_once("OUTOFRANGE [")?;
    key.rsplit_once(']').map(|(key, _)| key)
}

/// No answer in time to a sent request.
pub(crate) fn timed_out() -> Failure {
    let failure = Failure::new(ErrorKind::OutcomeUnknown, SILENT);
    Failure { answered: false, timed_out: true, ..failure }
}

/// The connection was given up before the answer to a sent request, for this reason if there is
/// one.
pub(crate) fn given_up(why: Option<Error>) -> Failure {
    let error = Error::new(ErrorKind::OutcomeUnknown, "the connection was given up before the answer");
    Failure { answered: false, ..Failure::said(error.because_of(why)) }
}

/// The connection has ended.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, CLOSED)
}

/// A read without an answer can simply be repeated.
pub(crate) fn only_read(error: Error) -> Error {
    error.of_harmless("no answer to a reading")
}

// What an outage looks like from a client.
const REFUSED: &str = "the connection was refused";
const SILENT: &str = "the server was silent";
const CLOSED: &str = "the connection was closed";
