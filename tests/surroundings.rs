//! Bad URLs and unavailable servers, as a user of the library meets them. On every backend of this build, the
//! answer is a typed error that names the problem, comes in time, and never contains the password. No test of
//! this file needs a server. Each backend's own tests use a URL of another kind of server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use latchwork::{Config, Error, ErrorKind, Key, Secret};
use latchwork_servers::{ClosedPort, Kind};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

/// In every URL of these tests, and in no text that is shown.
const PASSWORD: &str = "hunter2";
/// The time that a busy machine adds to every bound.
const NOISE: Duration = Duration::from_secs(5);

/// The backends of this build that are reached over a network.
fn backends() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| latchwork::compiled_backends().contains(&kind.name()))
}

/// Returns the error of a connect. `--nocapture` shows it in the form of a log.
async fn refused(url: &str) -> Error {
    let error = latchwork::connect(url).await.expect_err(url);
    println!("{url}\n  {error}");
    assert_eq!(error.operation(), error.argument().is_none().then_some("connect"));
    // The cause in the form of the client crate, and the chain in the form of a service.
    assert!(!format!("{:?}", error.cause()).contains(PASSWORD), "{url}");
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        for shown in [format!("{error}"), format!("{error:?}"), format!("{error:#?}")] {
            assert!(!shown.contains(PASSWORD), "{url}: {shown}");
        }
        cause = error.source();
    }
    error
}

#[tokio::test]
async fn a_bad_url_is_refused_by_name_without_io() {
    for kind in backends() {
        for (rest, argument) in [
            ("", "url"),
            ("app:hunter2@", "url"),
            ("app:hunter2@h:port", "url"),
            ("app:hunter2@h:0", "url"),
            ("app:hunter2@h:70000", "url"),
            ("app:hunter2@a b", "url"),
            ("app:hunter2@a,,b", "url"),
            ("app:hunter2@h?colour=red", "options"),
            ("app:hunter2@h#here", "url"),
            ("app:hunter2@h/%ff", "url"),
            ("app:hunter2%ff@h", "password"),
            ("app:hunter2/4@h", "url"),
            ("app:hunter2", "url"),
            ("app:hunter2@h?ttl=0s", "ttl"),
            ("app:hunter2@h?ttl=999ms", "ttl"),
            ("app:hunter2@h?ttl=61m", "ttl"),
            ("app:hunter2@h?ttl=10", "ttl"),
            ("app:hunter2@h?connect_timeout=0s", "connect_timeout"),
            ("app:hunter2@h?request_timeout=0s", "request_timeout"),
            ("app:hunter2@h?request_timeout=fast", "request_timeout"),
            ("app:hunter2@h?namespace=", "namespace"),
        ] {
            let url = format!("{kind}://{rest}");
            assert_eq!(refused(&url).await.argument(), Some(argument), "{url}");
            assert_eq!(latchwork::connect_lazy(&url).expect_err(&url).argument(), Some(argument), "{url}");
        }
        let long = "n".repeat(256);
        let url = format!("{kind}://app:hunter2@h?namespace={long}");
        assert_eq!(refused(&url).await.argument(), Some("namespace"));
        let url = format!("{kind}://app:hunter2@h?label={}", "l".repeat(4097));
        assert_eq!(refused(&url).await.argument(), Some("label"));
    }
}

#[tokio::test]
async fn unsupported_url_parts_are_refused_by_name() {
    for (url, argument) in [
        ("redis://:hunter2@a,b", "url"),
        ("redis://:hunter2@h/two", "url"),
        ("redis://:hunter2@h/-1", "url"),
        ("redis://:hunter2@h?strict=1", "strict"),
        ("zookeeper://app:hunter2@h?tick=0s", "tick"),
        ("zookeeper://:hunter2@h", "user"),
        ("zookeeper://app@h", "user"),
        ("zookeeper://app:hunter2@h/a//b", "url"),
        ("zookeeper://app:hunter2@h/zookeeper", "url"),
        ("etcd://:hunter2@h", "user"),
        ("etcd://app@h", "password"),
        ("etcd://app:hunter2@h/path", "url"),
        ("memory://app:hunter2@h", "url"),
        ("memory://a,b", "url"),
        ("memory://h/path", "url"),
    ] {
        let backend = url.split_once(':').unwrap().0;
        if latchwork::compiled_backends().contains(&backend) {
            assert_eq!(refused(url).await.argument(), Some(argument), "{url}");
        }
    }
    for url in ["http://app:hunter2@h", "mysql://app:hunter2@h", "app:hunter2@h"] {
        let argument = refused(url).await.argument();
        assert!(matches!(argument, Some("url" | "backend")), "{url}: {argument:?}");
    }
}

type Spoil = fn(&mut Config);

/// A configuration that a program filled in has the same checks as a URL.
#[tokio::test]
async fn a_configuration_made_by_hand_is_checked_too() {
    for kind in backends() {
        let mut good = Config::new(kind.name());
        good.hosts.push("h".to_owned());
        (good.user, good.password) = (Some("app".to_owned()), Some(Secret::new(PASSWORD)));
        let wrong: [(&str, Spoil); 6] = [
            ("ttl", |config| config.ttl = Duration::ZERO),
            ("ttl", |config| config.ttl = Duration::MAX),
            ("request_timeout", |config| config.request_timeout = Duration::ZERO),
            ("namespace", |config| config.namespace.clear()),
            ("label", |config| config.label = Some("l".repeat(4097))),
            ("hosts", |config| config.hosts = vec!["app:hunter2@h".to_owned()]),
        ];
        for (argument, spoil) in wrong {
            let mut config = good.clone();
            spoil(&mut config);
            let error = latchwork::connect(&config).await.expect_err(argument);
            assert_eq!(error.argument(), Some(argument), "{error}");
            assert!(!format!("{error} {error:#?}").contains(PASSWORD));
        }
    }
}

/// Starts a server that treats every connection in this way. Returns its address.
async fn listener(treat: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            treat(stream);
        }
    });
    addr
}

#[tokio::test]
async fn unreachable_address_is_unavailable_in_time() {
    let silent = listener(|mut stream| {
        tokio::spawn(async move { while stream.read_u8().await.is_ok() {} });
    });
    let closed = ClosedPort::take().unwrap();
    for (at, within) in [
        (silent.await.to_string(), Duration::from_secs(1)),
        (closed.addr().to_string(), Duration::ZERO),
        // RFC 2606: this name never exists.
        ("nowhere.invalid:1".to_owned(), Duration::from_secs(1)),
    ] {
        for kind in backends() {
            let started = Instant::now();
            let error = refused(&format!("{kind}://app:hunter2@{at}?connect_timeout=1s")).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.is_retryable());
            assert!(error.to_string().contains(&at), "{error}");
            assert!(started.elapsed() < within + NOISE, "{kind} at {at}: {:?}", started.elapsed());
        }
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_is_reported_in_time() {
    let at = listener(drop).await;
    for kind in backends() {
        let started = Instant::now();
        let error = refused(&format!("{kind}://app:hunter2@{at}")).await;
        // A server that is stopping also closes connections, and so does a proxy without its server. So the
        // error cannot blame the URL.
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("{at} closes the connection"))
                || text.contains(&format!("{at}: closes the connection")),
            "{text}"
        );
        assert!(started.elapsed() < Duration::from_secs(5) + NOISE);
    }
}

/// A lazy client reports the same from its first operation, and again from the next one.
#[tokio::test]
async fn a_lazy_client_reports_it_from_its_operations() {
    let closed = ClosedPort::take().unwrap();
    join_all(backends().map(|kind| reports_it_from_its_operations(kind, closed.addr()))).await;
}

async fn reports_it_from_its_operations(kind: Kind, at: SocketAddr) {
    let url = format!("{kind}://app:hunter2@{at}?connect_timeout=500ms&ttl=1s");
    let lazy = latchwork::connect_lazy(&url).expect("nothing is asked yet");
    let mutex = lazy.mutex("a").expect("a good key");
    for _ in 0..2 {
        // The deadline leaves enough time for a connect, also on a busy machine.
        let error = mutex.acquire().within(Duration::from_secs(3)).await.expect_err("no server answers");
        println!("{url}\n  {error}");
        assert!(error.is_retryable() && error.key() == Some("a"), "{error}");
        assert!(error.to_string().contains(&at.to_string()), "{error}");
        assert!(!format!("{error} {error:?} {lazy:?} {mutex:?}").contains(PASSWORD));
    }
    let tried = mutex.try_acquire().await.expect_err("no server answers");
    assert_eq!(tried.kind(), ErrorKind::Unavailable, "{tried}");
    lazy.close().await.expect("closed");
}

/// No arithmetic overflows on the longest durations.
#[tokio::test]
async fn the_longest_durations_mean_no_end() {
    let coordinator = latchwork::connect("memory://").await.expect("memory");
    let mutex = coordinator.mutex("a").expect("a good key");
    let hold = mutex.acquire().within(Duration::MAX).max_hold(Duration::MAX).await.expect("free");
    assert!(hold.is_held());
    hold.release().await.expect("released");
    let mut config: Config = "memory://".parse().expect("a good URL");
    (config.connect_timeout, config.request_timeout) = (Duration::MAX, Duration::MAX);
    let coordinator = latchwork::connect(config).await.expect("memory");
    let hold = coordinator.mutex("a").expect("a good key").try_acquire().await.expect("answered");
    assert!(hold.is_some());
    coordinator.close().await.expect("closed");
}

/// A handle with an address that cannot exist on the server is refused, although the client is not
/// connected yet.
#[tokio::test]
async fn an_impossible_exact_address_is_refused_by_name_without_io() {
    for kind in backends() {
        let bad = match kind {
            Kind::Redis => "a{b",
            Kind::Zookeeper => "no/path",
            Kind::Etcd => "latchwork",
        };
        let url = format!("{}://127.0.0.1:1", kind.name());
        let coordinator = latchwork::connect_lazy(url.as_str()).expect("nothing is asked of a server");
        let error = coordinator.mutex(Key::exact(bad)).expect_err(bad);
        assert_eq!((error.argument(), error.key()), (Some("key"), Some(bad)), "{error}");
        // On etcd only a mutex can share an address with other programs.
        assert_eq!(coordinator.rwlock(Key::exact(bad)).is_ok(), kind == Kind::Etcd, "{kind:?}");
        assert!(coordinator.mutex(bad).is_ok(), "{kind:?}");
        coordinator.close().await.expect("never connected");
    }
}
