//! No password is shown: not in `Debug`, errors, any log of this library or of a client crate, nor in the server's information
//! about its clients.

use std::path::Path;
use std::time::Duration;

use latchwork_conformance::log::Text;
use latchwork_conformance::own_process;
use latchwork_conformance::vault::Vault;
use latchwork_core::{Config, Coordinator, ErrorKind, Move, MoveConfig, Secret, connect};
use latchwork_servers::proxy::Proxy;
use latchwork_servers::{Kind, Options, Server};

use crate::connectors;

const SECRETS: [&str; 2] = ["hunter2-right", "hunter3-wrong"];

fn listen() -> Text {
    let log = Text::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .try_init()
        .expect("the first of this process");
    log
}

async fn server(kind: Kind, folder: &Path) -> Server {
    let user = ["--user", "app", "on", ">hunter2-right", "~*", "&*", "+@all"];
    let options = match kind {
        Kind::Redis => Options::new().own().args(user),
        Kind::Zookeeper => Options::new().own().args(jaas(folder)),
        Kind::Etcd => Options::new().own(),
    };
    let server = Server::start(kind, options).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
    if kind == Kind::Etcd {
        let mut root = etcd_client::Client::connect([server.addr()], None).await.expect("it is up");
        root.user_add("root", "root", None).await.expect("added");
        root.user_grant_role("root", "root").await.expect("granted");
        root.user_add("app", SECRETS[0], None).await.expect("added");
        root.user_grant_role("app", "root").await.expect("granted");
        root.auth_enable().await.expect("enabled");
    }
    server
}

fn jaas(folder: &Path) -> [String; 2] {
    let file = folder.join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let users = format!("Server {{ {module} required user_app=\"{}\"; }};", SECRETS[0]);
    std::fs::write(&file, users).expect("written");
    let provider = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    [format!("-Djava.security.auth.login.config={}", file.display()), provider.to_owned()]
}

async fn texts(kind: Kind, server: &Server, options: &str) -> Vec<String> {
    let proxy = Proxy::start(server.addr()).await.expect("a port");
    let url = |login: &str| {
        format!("{kind}://{login}{}?ttl=6s&request_timeout=5s&connect_timeout=20s&tick=100ms", proxy.addr())
    };
    let url = |login: &str| match kind {
        Kind::Zookeeper => url(login) + options,
        _ => url(login).replace("&tick=100ms", ""),
    };
    let mut seen = Vec::new();
    let fixed: Config = url("app:hunter2-right@").parse().expect("a URL");
    let provided = Config::from_url(&url("")).expect("a URL").with_credentials(Vault::new(SECRETS[0]));
    for config in [&fixed, &provided] {
        seen.extend([format!("{config:?} {config:#?}"), serde_json::to_string(config).expect("written")]);
        let client = connect(&connectors(), config).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        seen.extend(of_a_life(&client, &proxy).await);
    }
    let mut wrong = fixed.clone();
    wrong.password = Some(Secret::new(SECRETS[1]));
    let refused = connect(&connectors(), &wrong).await;
    let refused_by_a_provider = connect(
        &connectors(),
        &Config::from_url(&url("")).expect("a URL").with_credentials(Vault::new(SECRETS[1])),
    )
    .await;
    for refused in [refused, refused_by_a_provider] {
        match refused {
            Ok(client) => {
                // A ZooKeeper takes any digest, but its namespace is closed to it.
                assert_eq!((kind, options), (Kind::Zookeeper, ""));
                client.close_now().await.expect("closed");
            }
            Err(error) => seen.push(format!("{error} {error:?} {error:#?} {:?}", error.cause())),
        }
    }
    let unwrapped = tokio::spawn(async move { connect(&connectors(), &wrong).await.expect("it is wrong") });
    if let Err(error) = unwrapped.await {
        let panic = error.into_panic();
        seen.push(panic.downcast_ref::<String>().cloned().expect("a text"));
    }
    seen
}

/// The server is not a Sentinel, and reports that only after the login.
async fn texts_of_sentinels(server: &Server) -> Vec<String> {
    let mut seen = Vec::new();
    for password in SECRETS {
        let (addr, login) = (server.addr(), format!("sentinel_user=app&sentinel_password={password}"));
        let url = format!("redis-sentinel://app:{}@{addr}/service?{login}", SECRETS[0]);
        let config: Config = url.parse().expect("a URL");
        assert_eq!(config.options.get("sentinel_password"), Some(password));
        seen.extend([format!("{config:?} {config:#?}"), config.url_without_secrets()]);
        seen.push(serde_json::to_string(&config).expect("written"));
        let error = connect(&connectors(), &config).await.expect_err("the server is not a Sentinel");
        let refused = error.kind() == ErrorKind::Forbidden;
        assert_eq!(refused, password == SECRETS[1], "the password was sent: {error}");
        seen.push(format!("{error} {error:?} {error:#?} {:?}", error.cause()));
    }
    seen
}

async fn texts_of_a_move(server: &Server) -> Vec<String> {
    let side = |namespace: &str| -> Config {
        let (login, addr) = (SECRETS[0], server.addr());
        let url = format!("redis://app:{login}@{addr}?namespace={namespace}&ttl=6s&request_timeout=5s");
        url.parse().expect("a URL")
    };
    let sides = MoveConfig::new(side("moves-from"), side("moves-to"), "m");
    let participant = Config::of_move(sides.clone());
    let mut seen =
        vec![format!("{sides:?} {sides:#?} {participant:?} {}", participant.url_without_secrets())];
    seen.push(serde_json::to_string(&participant).expect("written"));
    let client = connect(&connectors(), &participant).await.expect("connected");
    let operator = Move::connect(&connectors(), &sides).await.expect("connected");
    operator.start(|progress| seen.push(format!("{progress:?}"))).await.expect("started");
    let plan = operator.plan().await.expect("planned");
    assert!(format!("{plan:?}").contains(server.addr()), "the plan names the sides: {plan:?}");
    seen.push(format!("{plan:#?} {:#?} {client:?}", operator.status().await.expect("told")));
    let error = connect(&connectors(), &sides.from).await.expect_err("it moves");
    assert!(error.to_string().contains(server.addr()), "the error names the server: {error}");
    seen.push(format!("{error} {error:?} {error:#?} {:?}", error.cause()));
    let mut wrong = sides.clone();
    wrong.to.password = Some(Secret::new(SECRETS[1]));
    let error = connect(&connectors(), &Config::of_move(wrong)).await.expect_err("it is wrong");
    assert!(error.kind() == ErrorKind::Forbidden, "{error}");
    seen.push(format!("{error} {error:?} {error:#?} {:?}", error.cause()));
    operator.abort(|progress| seen.push(format!("{progress:?}"))).await.expect("taken back");
    client.close().await.expect("closed");
    operator.close().await.expect("closed");
    seen
}

async fn of_a_life(client: &Coordinator, proxy: &Proxy) -> Vec<String> {
    let mutex = client.mutex("secrets").expect("a key");
    let hold = mutex.acquire().await.expect("free");
    let mut seen = vec![format!("{client:?} {client:#?} {mutex:?} {hold:?}")];
    seen.push(format!("{:?}", client.clients()));
    proxy.cut();
    if let Err(error) =
        client.mutex("other").expect("a key").acquire().within(Duration::from_millis(300)).await
    {
        seen.push(format!("{error} {error:#?}"));
    }
    proxy.resume();
    drop(hold);
    let again = mutex.acquire().within(Duration::from_secs(20)).await.expect("it is back");
    drop(again);
    client.close().await.expect("closed");
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_is_shown_to_anybody() {
    if !own_process!() {
        return;
    }
    let log = listen();
    let folder = tempfile::tempdir().expect("a folder");
    let sasl = "&namespace=by-sasl&sasl=true";
    for (kind, options) in
        [(Kind::Redis, ""), (Kind::Zookeeper, ""), (Kind::Zookeeper, sasl), (Kind::Etcd, "")]
    {
        let server = server(kind, folder.path()).await;
        let mut all = texts(kind, &server, options).await;
        if kind == Kind::Redis {
            all.extend(texts_of_sentinels(&server).await);
            all.extend(texts_of_a_move(&server).await);
        }
        for text in all {
            assert!(!SECRETS.iter().any(|secret| text.contains(secret)), "{kind}{options}: {text}");
        }
        if kind == Kind::Redis {
            let shown =
                latchwork_servers::ask(server.addr(), "CLIENT LIST\r\nQUIT\r\n").await.expect("it is up");
            assert!(shown.contains("cmd=client") && !shown.contains("hunter"), "{shown}");
        }
    }
    let log = log.text();
    for heard in ["latchwork_redis", "zookeeper_client", "h2::"] {
        assert!(log.contains(heard), "the log has no line of {heard}");
    }
    for secret in SECRETS {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "it was logged");
    }
}
