//! A preloaded library changes the time that a Redis reads. Each machine that links Rust programs has a C
//! compiler.

use std::process::Command;

use latchwork_servers::{Kind, Options, Server};
use tempfile::TempDir;

use super::{finds, names, patient};

async fn redis(seconds: i32) -> (Server, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("wrong_clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doctor/wrong_clock.c");
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-shared", "-fPIC", "-O1", &format!("-DOFFSET={seconds}"), source, "-o"]).arg(&library);
    let compiled = cc.output().expect("cc, which links Rust programs too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let options = Options::new().environment("LD_PRELOAD", library.to_str().expect("text"));
    (Server::start(Kind::Redis, options).await.expect("a Redis"), folder)
}

#[tokio::test]
async fn redis_clock_a_minute_off_is_reported() {
    for (seconds, words) in [(-60, "60.0 s behind this machine"), (60, "60.0 s ahead of this machine")] {
        let (server, _library) = redis(seconds).await;
        names(server.url(), words).await;
    }
}

#[tokio::test]
async fn a_redis_whose_clock_is_right() {
    let (server, _library) = redis(0).await;
    let findings = finds(&patient(&server), &[]).await;
    let good = findings.iter().any(|(level, said)| level == "good" && said.contains("\"clock\""));
    assert!(good, "{findings:#?}");
}
