use latchwork_servers::{Kind, Options, Server};

use crate::common::{KEY, Run, WAITS, program, ran};

async fn keeps_others_out_and_shows_the_holder(kind: Kind) {
    let server = Server::start(kind, Options::new().own()).await.expect("a server");
    let url = format!("{}?ttl=30s&connect_timeout=20s", server.url());
    let lock = ["lock", KEY, "--owner-label", "the holder", "--", "sh", "-c", WAITS];
    let run = Run::start(program(&url, lock)).await;
    let tries = ["lock", KEY, "--try", "--", "echo", "ran"];
    let (code, out, _) = ran(program(&url, tries)).await;
    assert_eq!((code, &*out), (Some(120), ""), "{kind}");
    let (code, shown, _) = ran(program(&url, ["inspect", "the/"])).await;
    assert!(code == Some(0) && shown.contains("holds") && shown.contains("the holder"), "{kind}: {shown}");
    run.terminate().await;
    let (code, out, _) = ran(program(&url, tries)).await;
    assert_eq!((code, &*out), (Some(0), "ran\n"), "{kind}");
    let (code, said, _) = ran(program(&url, ["doctor"])).await;
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
