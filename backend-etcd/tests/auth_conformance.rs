//! The suite against this backend as a user with the role that the guide gives it: whole in the long
//! tier, or when it is asked for.

use std::process::ExitCode;

use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::testbeds::etcd_auth_testbed;

const GUIDE: &str = include_str!("../../src/guide/trust.md");

fn main() -> ExitCode {
    latchwork_conformance::main_on("auth", latchwork_etcd::connector(), async || {
        let (_, section) = GUIDE.split_once("# etcd\n").ok_or("the guide has nothing of etcd")?;
        let (_, commands) = section.split_once("```text\n").ok_or("the guide has no commands")?;
        let (commands, _) = commands.split_once("```").ok_or("they have no end")?;
        // Every client of every case logs in, and the server compares one password after the other.
        let server = Server::start(Kind::Etcd, Options::new().own().args(["--bcrypt-cost=4"])).await?;
        Ok(etcd_auth_testbed(server, commands).await?)
    })
}
