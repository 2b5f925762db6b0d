//! The suite against this backend as a user with the rights that the guide gives it: whole in the long
//! tier, or when it is asked for.

use std::process::ExitCode;

use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::testbeds::redis_acl_testbed;

const GUIDE: &str = include_str!("../../src/guide/trust.md");

fn main() -> ExitCode {
    latchwork_conformance::main_on("auth", latchwork_redis::connector(), async || {
        let command = GUIDE.lines().find(|line| line.starts_with("ACL SETUSER "));
        let server = Server::start(Kind::Redis, Options::new().own()).await?;
        Ok(redis_acl_testbed(server, command.ok_or("the guide has no ACL")?).await?)
    })
}
