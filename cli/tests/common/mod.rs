use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use latchwork::operator::Operator;
use latchwork::{Coordinator, MutexGuard};
use latchwork_conformance::child::Child;
use latchwork_servers::{Kind, Options, Server, ask};
use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// No pause of the machine ends such a lease.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// For tests that wait for the end of a lease. A holder survives a pause of half of it.
pub(crate) const SHORT_TTL: Duration = Duration::from_secs(6);
pub(crate) const SOON: Duration = Duration::from_secs(20);
// A lock that is free within this time was released.
const _: () = assert!(SOON.as_secs() < TTL.as_secs() * 2 / 3);
pub(crate) const KEY: &str = "the/lock";
/// Prints its process id, and waits for a signal.
pub(crate) const WAITS: &str = r#"ulimit -c 0; exec perl -e '$| = 1; print "$$\n"; sleep 300'"#;

/// Counts signals until a moment after the first. A shell would count two signals at once as one.
pub(crate) const COUNTS: &str = r#"exec perl -e '$| = 1; $SIG{$_} = sub { $n++ } for qw(TERM INT HUP QUIT); print "$$\n";
    select(undef, undef, undef, .05) until $n; select(undef, undef, undef, .05) for 1..10; print "signals $n\n"; exit 3'"#;

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) url: String,
}

impl Fixture {
    /// Also for many clients at once on a busy machine.
    pub(crate) async fn new() -> Self {
        Self::with(TTL, Duration::from_secs(20)).await
    }

    /// No lease is renewed, and no waiter re-checks.
    pub(crate) async fn quiet() -> Self {
        Self::with(Duration::from_secs(3600), Duration::from_secs(20)).await
    }

    pub(crate) async fn short() -> Self {
        Self::with_ttl(SHORT_TTL).await
    }

    /// Requests to a dead or paused server end long before [`SOON`].
    pub(crate) async fn with_ttl(ttl: Duration) -> Self {
        Self::with(ttl, Duration::from_secs(3)).await
    }

    /// The URL has the form that the program passes to its command.
    async fn with(ttl: Duration, request_timeout: Duration) -> Self {
        let server = Server::start(Kind::Redis, Options::new().own()).await.expect("a Redis");
        let [ttl, request_timeout] = [ttl, request_timeout].map(humantime::format_duration);
        let url = format!("{}?ttl={ttl}&connect_timeout=1m&request_timeout={request_timeout}", server.url());
        Self { server, url }
    }

    pub(crate) async fn client(&self) -> Coordinator {
        latchwork::connect(&self.url).await.expect("a client")
    }

    /// An operator's client can connect to a retired namespace.
    pub(crate) async fn operator(&self) -> Operator {
        latchwork::operator::connect(&self.url).await.expect("a client")
    }

    pub(crate) fn program<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        program(&self.url, arguments)
    }

    /// `latchwork lock KEY OPTION… -- sh -c SCRIPT`; the script's first line is its process id.
    pub(crate) async fn lock(&self, options: &[&str], script: &str) -> Run {
        let arguments =
            ["lock", KEY].into_iter().chain(options.iter().copied()).chain(["--", "sh", "-c", script]);
        Run::start(self.program(arguments)).await
    }

    pub(crate) async fn contended(&self, options: &[&str], script: &str) -> (Run, Next) {
        let run = self.lock(options, script).await;
        let next = Next::behind(self, run.command).await;
        (run, next)
    }
}

pub(crate) async fn keys(server: &str) -> String {
    ask(server, "KEYS *\r\nQUIT\r\n").await.expect("an answer")
}

pub(crate) fn program<S: AsRef<OsStr>>(url: &str, arguments: impl IntoIterator<Item = S>) -> Command {
    command(env!("CARGO_BIN_EXE_latchwork"), url, arguments)
}

/// Without the settings of the user.
pub(crate) fn command<S: AsRef<OsStr>>(
    program: &str,
    url: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("LATCHWORK_URL", url).env("XDG_CONFIG_HOME", "/nonexistent");
    command.env_remove("LATCHWORK_CONFIG").stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub(crate) async fn ran(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().await.expect("it ran");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(crate) struct Run {
    child: Child<String>,
    pub(crate) command: Pid,
}

#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

impl Over {
    pub(crate) async fn of(mut child: Child<String>) -> Self {
        let status = timeout(SOON, child.process.ended()).await.expect("an end in time");
        Self { status, said: child.process.stderr() }
    }

    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().expect("a signal"))
    }
}

impl Run {
    pub(crate) async fn start(command: Command) -> Self {
        Self::of(Child::of_text(command)).await
    }

    pub(crate) async fn of(mut child: Child<String>) -> Self {
        let line = child.next().await;
        let command = line.trim().parse().ok().and_then(Pid::from_raw);
        Self { child, command: command.unwrap_or_else(|| panic!("not a process: {line:?}")) }
    }

    pub(crate) async fn line(&mut self) -> String {
        self.child.next().await
    }

    pub(crate) async fn rest(&mut self) -> Vec<String> {
        timeout(SOON, self.child.events.rest()).await.expect("an end in time")
    }

    /// A terminal closes when no process has it open.
    pub(crate) fn forget_lines(&mut self) {
        self.child.events.close();
    }

    pub(crate) fn pid(&self) -> Pid {
        self.child.process.pid()
    }

    pub(crate) fn guard(&self) -> Pid {
        parent(self.command).expect("a guard")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.child.process.signal(signal);
    }

    pub(crate) async fn over(self) -> Over {
        Over::of(self.child).await
    }

    pub(crate) async fn terminate(self) {
        self.signal(Signal::TERM);
        assert_eq!(self.over().await.code(), 143);
    }

    /// The program reports the loss with these words.
    pub(crate) async fn loses_its_hold(self, words: &str) {
        let over = self.over().await;
        assert!(over.code() == 121 && over.said.contains(words), "{over:?}");
    }

    pub(crate) async fn command_is_gone(&self) {
        gone(self.command).await;
    }
}

pub(crate) fn pid_of(id: Option<u32>) -> Pid {
    id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs")
}

pub(crate) fn alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

pub(crate) async fn gone(pid: Pid) {
    let until = async {
        while alive(pid) {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, until).await.expect("it goes");
}

pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    stat(pid).and_then(|(_, parent)| Pid::from_raw(parent))
}

fn stat(pid: Pid) -> Option<(char, i32)> {
    let mut stat = String::new();
    let path = PathBuf::from(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    std::fs::File::open(path).ok()?.read_to_string(&mut stat).ok()?;
    let mut words = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

pub(crate) struct Next {
    holds: tokio::task::JoinHandle<(bool, MutexGuard)>,
    coordinator: Coordinator,
}

impl Next {
    /// Records whether `command` was alive when the client got the lock.
    pub(crate) async fn behind(fixture: &Fixture, command: Pid) -> Self {
        Self::stands(fixture.client().await, command).await
    }

    pub(crate) async fn stands(coordinator: Coordinator, command: Pid) -> Self {
        let lock = coordinator.mutex(KEY).expect("a lock");
        let watched = coordinator.clone();
        let holds = tokio::spawn({
            let lock = lock.clone();
            async move {
                let guard = loop {
                    match lock.acquire().await {
                        Ok(guard) => break guard,
                        Err(error) if error.may_pass() => sleep(Duration::from_millis(50)).await,
                        Err(error) => panic!("{error}"),
                    }
                };
                (alive(command), guard)
            }
        });
        let stands = async {
            while watched.mutex(KEY).expect("a lock").queue().first(9).await.expect("a queue").len() < 2 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, stands).await.expect("it joins the queue");
        Self { holds, coordinator }
    }

    pub(crate) fn holds_already(&self) -> bool {
        self.holds.is_finished()
    }

    /// The command must be gone by then.
    pub(crate) async fn holds_alone(self) {
        let (beside, guard) = timeout(SOON, self.holds).await.expect("it holds in time").expect("no panic");
        assert!(!beside, "the command still ran when another held");
        guard.release().await.expect("a release");
        self.coordinator.close().await.expect("a close");
    }
}
