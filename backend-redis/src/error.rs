use latchwork_core::backend::Transport;
use latchwork_core::{Error, ErrorKind};
use redis::RedisError;

pub(crate) type Answer<T> = Result<T, Failure>;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) redial: bool,
    /// The connection may be unusable: no answer came in time.
    pub(crate) timed_out: bool,
    pub(crate) answered: bool,
    /// The host to which another server redirected the client, without an answer: it may not be a Redis.
    pub(crate) silent: Option<String>,
    pub(crate) is_replica: bool,
    /// How to send the request again, which was not carried out.
    pub(crate) again: Option<Again>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// With the text of its script, which the server does not have.
    WithText,
    /// To this server, like all later requests for the slot.
    Moved(String),
    /// To this server, once: the slot is being moved.
    Ask(String),
    Later,
}

impl Failure {
    fn new(kind: ErrorKind, context: &'static str) -> Self {
        Self::said(Error::new(kind, context))
    }

    /// A failure by a server's answer, or a conclusion from one.
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

    pub(crate) fn replica(error: Error) -> Self {
        Self { is_replica: true, ..Self::said(error) }
    }

    /// The more useful failure of two servers: an answer before silence, otherwise the first.
    pub(crate) fn or_more_telling(self, before: Option<Self>) -> Self {
        match before {
            Some(before) if before.answered || !self.answered => before,
            _ => self,
        }
    }

    /// Adds the reason of TLS if the connection failed without an answer.
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

/// `sent`: the request may have reached the server. The scripts check before they write, so after an error
/// answer nothing was written.
pub(crate) fn from_redis(error: RedisError, sent: bool) -> Failure {
    let (code, words) = answer_of(&error);
    let begins = |phrase: &str| words.starts_with(phrase);
    let failure = match code {
        "NOSCRIPT" => {
            let failure =
                Failure::new(ErrorKind::Unavailable, "the server no longer has a script of this client");
            Failure { again: Some(Again::WithText), ..failure }
        }
        "READONLY" | "MASTERDOWN" | "UNBLOCKED" => no_master(),
        // The command's name is in the place of a code.
        "WAIT" if begins("cannot be used with replica instances") => no_master(),
        "LOADING" => refused("the server is loading its data: wait").redial(),
        "NOAUTH" | "WRONGPASS" => login_refused(),
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => login_refused(),
        "NOPERM" => forbidden(),
        "ERR" if begins("The user executing the script can't run this command or subcommand") => forbidden(),
        "OOM" => refused("the server is out of memory: raise maxmemory, or delete keys"),
        "NOREPLICAS" => {
            refused("too few replicas follow the server: start replicas, or lower min-replicas-to-write")
        }
        "MISCONF" => refused(
            "the server refuses writes, since it cannot save its data to disk: look into its log, and free disk space",
        ),
        "DENIED" => refused(
            "the server is in protected mode, and serves its own machine only: set a password, or bind and protected-mode",
        ),
        "ERR" if begins("max number of clients reached") => {
            refused("the server has no free connection: raise maxclients, or close clients")
        }
        "TRYAGAIN" | "CLUSTERDOWN" => {
            let why = "the cluster does not serve this slot now";
            Failure { again: Some(Again::Later), ..Failure::new(ErrorKind::Unavailable, why) }
        }
        "BUSY" => refused("the server is busy with a script: wait, or call SCRIPT KILL or FUNCTION KILL"),
        "OUTOFRANGE" => {
            let key = bracketed(words);
            let what = format!(
                "a number in the key {key} is out of range (2^53 or more): correct it, or delete the key"
            );
            Failure::said(Error::new(ErrorKind::Misconfigured, what))
        }
        "WRONGTYPE" => Failure::new(
            ErrorKind::Conflict,
            "a key of this queue belongs to another program: use another key",
        ),
        "MOVED" | "ASK" if error.redirect_node().is_some() => {
            let host = error.redirect_node().map_or_else(String::new, |(host, _)| host.to_owned());
            let again = if code == "ASK" { Again::Ask(host) } else { Again::Moved(host) };
            let why = "another server of a Redis Cluster has this key: connect with redis-cluster://h1,h2";
            Failure { again: Some(again), ..Failure::new(ErrorKind::Misconfigured, why) }
        }
        "ERR" if begins("unknown command `HELLO`") => too_old(),
        _ if error.kind() == redis::ErrorKind::RESP3NotSupported => too_old(),
        _ if matches!(error.kind(), redis::ErrorKind::Server(_) | redis::ErrorKind::Extension) => {
            Failure::new(ErrorKind::Misconfigured, "the server refused the request")
        }
        _ => {
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
        }
    };
    Failure { error: failure.error.because(error), ..failure }
}

/// The code of a server's answer, and the text after it. Both are empty for an error of the connection.
///
/// A code counts only at its fixed place, because the text contains names of keys, which any user may choose.
/// The code of a script's error follows `ERR`, and on Redis 6.2 also the script's place: `ERR Error running
/// script (call to f_…): @user_script:9: @user_script: 9: -READONLY You can't write`.
fn answer_of(error: &RedisError) -> (&str, &str) {
    let words = error.detail().unwrap_or_default();
    let (code, words) = match error.code() {
        Some(code) => (code, words),
        // The self-test returns its script's error as a text.
        None if error.kind() == redis::ErrorKind::Extension => ("ERR", words),
        None => return ("", ""),
    };
    if code != "ERR" {
        return (code, words);
    }
    let mut words = match words.strip_prefix("Error running script (call to ") {
        Some(call) => call.split_once("): ").map_or(words, |(_, words)| words),
        None => words,
    };
    while let Some(after) = after_place(words) {
        words = after;
    }
    let words = words.strip_prefix('-').unwrap_or(words);
    match words.split_once(' ') {
        Some((code, words)) if code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            (code, words)
        }
        _ => ("ERR", words),
    }
}

/// The text after the place in a script, which Redis 6.2 writes first: `@user_script: 9: words`.
fn after_place(words: &str) -> Option<&str> {
    let (place, words) =
        words.strip_prefix('@').unwrap_or(words).strip_prefix("user_script:")?.split_once(": ")?;
    place.trim_start().bytes().all(|byte| byte.is_ascii_digit()).then_some(words)
}

fn refused(why: &'static str) -> Failure {
    let failure = Failure::new(ErrorKind::Unavailable, why);
    Failure { error: failure.error.of_refusal(), ..failure }
}

fn no_master() -> Failure {
    Failure::new(ErrorKind::Unavailable, "the server is not a master now").redial()
}

fn login_refused() -> Failure {
    Failure::said(Error::forbidden("log in", "check user and password")).redial()
}

fn forbidden() -> Failure {
    Failure::said(Error::forbidden("a command, key or channel", "check the ACL of this user"))
}

fn too_old() -> Failure {
    Failure::new(ErrorKind::Misconfigured, "the server is older than Redis 6.2: use 6.2 or newer")
}

/// The key that a script names in its refusal: `[key]`, on Redis 7 followed by the script's digest.
fn bracketed(words: &str) -> &str {
    let key = words.strip_prefix('[').unwrap_or(words);
    key.rsplit_once(']').map_or(key, |(key, _)| key)
}

pub(crate) fn timed_out() -> Failure {
    let failure = Failure::new(ErrorKind::OutcomeUnknown, SILENT);
    Failure { answered: false, timed_out: true, ..failure }
}

pub(crate) fn given_up(why: Option<Error>) -> Failure {
    let error = Error::new(ErrorKind::OutcomeUnknown, "the connection was dropped before the answer");
    Failure { answered: false, ..Failure::said(error.because_of(why)) }
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, CLOSED)
}

pub(crate) fn refusal_of(answer: &[u8]) -> Option<Failure> {
    let error = redis::parse_redis_value(answer).ok()?.extract_error().err()?;
    Some(from_redis(error, false)).filter(|failure| failure.error.is_refusal())
}

pub(crate) fn only_read(error: Error) -> Error {
    error.of_harmless("no answer to a read")
}

const REFUSED: &str = "the connection was refused";
const SILENT: &str = "the server was silent";
const CLOSED: &str = "the connection was closed";

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn failure(line: &str) -> Failure {
        let value = parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error is a value");
        from_redis(value.extract_error().expect_err("an error"), true)
    }

    /// The error of a script, as each version wraps it: Redis 6.2 by a call, by an error of the script and by
    /// one that it passes on; Redis 7 by a call and by an error of the script.
    fn in_scripts(said: &str) -> [String; 5] {
        let running = "ERR Error running script (call to f_8ab1):";
        [
            format!("{running} @user_script:9: @user_script: 9: -{said}"),
            format!("{running} @user_script:9: {said}"),
            format!("{running} @user_script:9: @user_script: 7: {said}"),
            format!("{said} script: 8ab1, on @user_script:9."),
            format!("ERR {said} script: 8ab1, on @user_script:9."),
        ]
    }

    #[test]
    fn errors_of_a_server_are_recognised_by_their_code_also_inside_of_scripts() {
        for (said, kind, redial) in [
            ("READONLY You can't write against a read only replica.", ErrorKind::Unavailable, true),
            ("MASTERDOWN Link with MASTER is down", ErrorKind::Unavailable, true),
            ("LOADING Redis is loading the dataset in memory", ErrorKind::Unavailable, true),
            ("NOAUTH Authentication required.", ErrorKind::Forbidden, true),
            ("NOPERM this user has no permissions to access one of the keys", ErrorKind::Forbidden, false),
            (
                "ERR The user executing the script can't run this command or subcommand",
                ErrorKind::Forbidden,
                false,
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorKind::Unavailable, false),
            ("MISCONF Redis is configured to save RDB snapshots", ErrorKind::Unavailable, false),
            ("NOREPLICAS Not enough good replicas to write.", ErrorKind::Unavailable, false),
            ("BUSY Redis is busy running a script.", ErrorKind::Unavailable, false),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", ErrorKind::Conflict, false),
            ("OUTOFRANGE [latchwork:{q}:seq]", ErrorKind::Misconfigured, false),
        ] {
            for line in in_scripts(said) {
                let failure = failure(&line);
                assert_eq!((failure.error.kind(), failure.redial), (kind, redial), "{line}");
            }
        }
        for place in ["ERR ", "@user_script: 9: "] {
            let text = format!("{place}The user executing the script can't run this command or subcommand");
            let self_test = from_redis((redis::ErrorKind::Extension, "self-test", text).into(), false);
            assert_eq!(self_test.error.kind(), ErrorKind::Forbidden, "{}", self_test.error);
        }
        let replica = failure("ERR WAIT cannot be used with replica instances. Please also note");
        assert!(replica.redial, "{:?}", replica.error);
        assert_eq!(failure("NOSCRIPT No matching script.").again, Some(Again::WithText));
        assert_eq!(failure("MOVED 7 10.0.0.1:6379").again, Some(Again::Moved("10.0.0.1:6379".to_owned())));
        assert_eq!(failure("ASK 7 10.0.0.1:6379").again, Some(Again::Ask("10.0.0.1:6379".to_owned())));
    }

    #[test]
    fn refusal_of_a_new_connection_is_recognised() {
        for (said, words) in [
            ("DENIED Redis is running in protected mode because", "protected mode"),
            ("ERR max number of clients reached", "maxclients"),
        ] {
            let failure = refusal_of(format!("-{said}\r\n").as_bytes()).expect("a refusal");
            assert!(failure.answered && failure.error.to_string().contains(words), "{}", failure.error);
        }
        assert!(refusal_of(b"+PONG\r\n").is_none() && refusal_of(b"").is_none());
    }

    /// Users and other programs choose the keys.
    #[test]
    fn error_code_in_a_key_name_is_ignored() {
        for key in
            ["READONLY", "a NOAUTH b", "NOSCRIPT", "BUSY now", "@user_script: 1: -LOADING x", "x] LOADING [y"]
        {
            for line in in_scripts(&format!("OUTOFRANGE [{key}]")) {
                let failure = failure(&line);
                assert_eq!(
                    (failure.error.kind(), failure.redial),
                    (ErrorKind::Misconfigured, false),
                    "{line}"
                );
                assert!(
                    failure.error.to_string().contains(&format!("in the key {key} is")),
                    "{}",
                    failure.error
                );
                assert_eq!(failure.again, None, "{line}");
            }
            for line in in_scripts(&format!("WRONGTYPE [{key}] is no cell")) {
                let failure = failure(&line);
                assert_eq!((failure.error.kind(), failure.redial), (ErrorKind::Conflict, false), "{line}");
            }
        }
        let unknown = failure("ERR unknown command 'READONLY', with args beginning with: 'MOVED' 'LOADING'");
        assert_eq!((unknown.error.kind(), unknown.redial), (ErrorKind::Misconfigured, false));
    }
}
