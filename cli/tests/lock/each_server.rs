//! The same on each kind of server that the build has.

use latchwork_servers::{Kind, Options, Server};
use rustix::process::Signal;

use crate::common::{KEY, Run, WAITS, program};

async fn keeps_others_out_and_shows_the_holder(kind: Kind) {
    let server = Server::start(kind, Options::new().own()).await.expect("a server");
    let url = format!("{}?ttl=30s&connect_timeout=20s", server.url());
    let lock = ["lock", KEY, "--owner-label", "the holder", "--", "sh", "-c", WAITS];
    let run = Run::start(program(&url, lock)).await;
    let output = async |arguments: &[&str]| {
        let output = program(&url, arguments).output().await.expect("it ran");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(
        output(&["lock", KEY, "--try", "--", "echo", "ran"]).await,
        (Some(120), String::new()),
        "{kind}"
    );
    let (code, shown) = output(&["inspect", "the/"]).await;
    assert!(code == Some(0) && shown.contains("holds") && shown.contains("the holder"), "{kind}: {shown}");
    run.signal(Signal::TERM);
    assert_eq!(run.over().await.code(), 143, "{kind}");
    assert_eq!(
        output(&["lock", KEY, "--try", "--", "echo", "ran"]).await,
        (Some(0), "ran\n".to_owned()),
        "{kind}"
    );
    let (code, said) = output(&["doctor"]).await;
    assert_eq!(code, Some(0), "{kind}: {said}");
}

#[tokio::test]
async fn redis() {
    keeps_others_out_and_shows_the_holder(Kind::Redis).await;
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn zookeeper() {
    keeps_others_out_and_shows_the_holder(Kind::Zookeeper).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn etcd() {
    keeps_others_out_and_shows_the_holder(Kind::Etcd).await;
}
