//! The tests need `LATCHWORK_SERVER_DIR` or installed programs, and are never skipped.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latchwork_servers::{Clocks, Kind, Options, Origin, Server, ServerError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For an expected event, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const ASK: Duration = Duration::from_secs(2);

/// `None`: no answer in this time.
async fn ask(addr: &str, request: &str) -> Option<String> {
    timeout(ASK, async {
        let mut stream = TcpStream::connect(addr).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).await.ok().filter(|length| *length > 0)?;
        answer.truncate(length);
        String::from_utf8(answer).ok()
    })
    .await
    .ok()
    .flatten()
}

/// A slow server is asked again; a refusal fails.
async fn answer(addr: &str, request: &str) -> String {
    let answered = async {
        loop {
            let begun = Instant::now();
            if let Some(answer) = ask(addr, request).await {
                return answer;
            }
            assert!(begun.elapsed() >= ASK, "{addr} refuses to answer");
        }
    };
    timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("no answer to {request:?}"))
}

async fn own(kind: Kind) -> Server {
    Server::start(kind, Options::new().own()).await.unwrap_or_else(|error| panic!("{error}"))
}

fn probe(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Redis => ("PING\r\n", "+PONG"),
        Kind::Zookeeper => ("ruok", "imok"),
        Kind::Etcd => ("GET /version HTTP/1.0\r\n\r\n", "etcdserver"),
    }
}

async fn answers(server: &Server) -> bool {
    let (question, answer) = probe(server.kind());
    ask(server.addr(), question).await.is_some_and(|said| said.contains(answer))
}

async fn must_answer(server: &Server) {
    let (question, part) = probe(server.kind());
    let said = answer(server.addr(), question).await;
    assert!(said.contains(part), "{said:?}");
}

async fn life_of_a_server(kind: Kind) {
    let server = own(kind).await;
    assert_eq!(server.origin(), Origin::Binary);
    assert_eq!(server.clocks(), Clocks::Fast);
    assert_eq!(server.url(), format!("{kind}://{}", server.addr()));
    assert!(
        !server.addr().ends_with(&format!(":{}", kind.default_port())),
        "a test must not take a default port"
    );
    must_answer(&server).await;
    let first = server.pid().expect("it runs");

    server.pause().await.unwrap();
    assert!(!answers(&server).await, "a frozen server answered");
    server.resume().await.unwrap();
    must_answer(&server).await;

    server.restart().await.unwrap();
    must_answer(&server).await;
    assert_ne!(server.pid(), Some(first));

    server.kill().await.unwrap();
    assert_eq!(server.pid(), None);
    assert!(!answers(&server).await);
    assert!(matches!(server.pause().await, Err(ServerError::Stopped { .. })));
    server.launch().await.unwrap();
    must_answer(&server).await;
    server.pause().await.unwrap();
    server.stop().await.expect("a frozen server can be stopped");

    server.launch().await.unwrap();
    let (addr, pid) = (server.addr().to_owned(), server.pid().expect("it runs"));
    drop(server);
    assert!(!lives(pid), "dropping it has ended it");
    TcpStream::connect(addr).await.expect_err("the port is still open");
}

#[tokio::test]
async fn redis_can_be_paused_stopped_killed_and_started_again() {
    life_of_a_server(Kind::Redis).await;
}

#[tokio::test]
async fn zookeeper_can_be_paused_stopped_killed_and_started_again() {
    life_of_a_server(Kind::Zookeeper).await;
}

#[tokio::test]
async fn etcd_can_be_paused_stopped_killed_and_started_again() {
    life_of_a_server(Kind::Etcd).await;
}

#[tokio::test]
async fn arguments_reach_the_server() {
    let options = Options::new().args(["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]).own();
    let redis = Server::start(Kind::Redis, options).await.unwrap();
    let policy = answer(redis.addr(), "CONFIG GET maxmemory-policy\r\n").await;
    assert!(policy.contains("allkeys-lru"), "{policy}");
    let zookeeper = Server::start(Kind::Zookeeper, Options::new().args(["globalOutstandingLimit=77"]).own())
        .await
        .unwrap();
    assert!(answer(zookeeper.addr(), "srvr").await.contains("standalone"));
}

#[tokio::test]
async fn zookeeper_has_the_clocks_that_were_asked_for() {
    for (clocks, expected) in [
        (Clocks::Fast, ["tickTime=100", "minSessionTimeout=200", "maxSessionTimeout=60000"]),
        (Clocks::Default, ["tickTime=2000", "minSessionTimeout=4000", "maxSessionTimeout=40000"]),
    ] {
        let server = Server::start(Kind::Zookeeper, Options::new().clocks(clocks).own()).await.unwrap();
        let config = answer(server.addr(), "conf").await;
        for line in expected {
            assert!(config.contains(line), "{line} is missing in:\n{config}");
        }
    }
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_reported_with_its_log() {
    let options = Options::new().own().args(["--no-such-option", "x"]);
    match Server::start(Kind::Redis, options).await {
        Err(ServerError::Died { log, .. }) => assert!(log.contains("no-such-option"), "{log}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn server_that_shut_down_can_be_started_again() {
    let server = own(Kind::Redis).await;
    assert_eq!(ask(server.addr(), "SHUTDOWN NOSAVE\r\n").await, None);
    ends("the server", || server.pid().is_some()).await;
    server.launch().await.unwrap();
    must_answer(&server).await;
}

#[tokio::test]
async fn two_servers_of_a_kind_are_two_servers() {
    let (one, two) = tokio::join!(own(Kind::Redis), own(Kind::Redis));
    assert_ne!(one.addr(), two.addr());
    answer(one.addr(), "SET a 1\r\n").await;
    assert_eq!(answer(two.addr(), "GET a\r\n").await, "$-1\r\n");
}

/// A dead process that is not collected does not live.
fn lives(pid: u32) -> bool {
    let state = if Path::new("/proc/self/stat").exists() {
        // The name is in brackets and may contain any text.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().unwrap_or_default().trim().to_owned()
    } else {
        let said =
            Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps runs");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    !state.is_empty() && !state.starts_with('Z')
}

/// The end causes no event.
async fn ends(what: &str, lives: impl Fn() -> bool) {
    timeout(PATIENCE, async {
        while lives() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{what} lives on"));
}

/// Runs this test program again as a process that starts a server.
#[tokio::test]
async fn a_server_dies_with_the_process_that_started_it_even_if_that_is_killed() {
    const CHILD: &str = "LATCHWORK_TEST_START_AND_WAIT";
    if std::env::var_os(CHILD).is_some() {
        let server = own(Kind::Redis).await;
        println!("started {} {}", server.pid().unwrap(), server.addr());
        std::future::pending::<()>().await;
    }
    let name = "servers::a_server_dies_with_the_process_that_started_it_even_if_that_is_killed";
    let mut starter = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(starter.stdout.take().unwrap()));
    let (pid, addr) = loop {
        let line = lines.next_line().await.unwrap().expect("it reports its server");
        if let Some((_, started)) = line.split_once("started ") {
            let (pid, addr) = started.split_once(' ').unwrap();
            break (pid.parse::<u32>().unwrap(), addr.to_owned());
        }
    };
    let mut connection = TcpStream::connect(&addr).await.unwrap();
    starter.kill().await.unwrap();
    let end = timeout(PATIENCE, connection.read(&mut [0; 8])).await.expect("the server lives on");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    ends("the server", || lives(pid)).await;
}
