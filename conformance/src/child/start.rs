use std::env;
use std::process::ExitCode;
use std::sync::Arc;

use latchwork_core::backend::LAYOUT;
use latchwork_core::{Config, Connector, Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::Command;
use tokio::runtime::Builder;

use super::role::Role;
use crate::runtime::runtime;

const VARIABLE: &str = "LATCHWORK_CONTENDER";

/// The suite's program of a build with the next layout. Otherwise this program acts as that build.
const NEWER_BUILD: &str = "LATCHWORK_NEWER_BUILD";

const TEST: [&str; 5] = ["contender", "--exact", "--nocapture", "--quiet", "--test-threads=2"];

#[derive(Serialize, Deserialize)]
pub(crate) struct Given<R> {
    pub(crate) role: String,
    arguments: R,
    config: Config,
    // A serialised configuration lacks these.
    password: Option<String>,
    layout: Option<u32>,
}

/// A build for the next `layout` may be another program.
pub(crate) fn command<R: Role>(config: &Config, layout: Option<u32>, role: &R) -> Command {
    let newer = env::var_os(NEWER_BUILD).filter(|_| layout == Some(LAYOUT + 1));
    let given = Given {
        role: R::NAME.to_owned(),
        arguments: role,
        config: config.clone(),
        password: config.password.as_ref().map(|password| password.expose().to_owned()),
        layout: layout.filter(|_| newer.is_none()),
    };
    let program = newer.unwrap_or_else(|| env::current_exe().expect("the path of this program").into());
    let mut command = Command::new(program);
    command.args(TEST).env(VARIABLE, serde_json::to_string(&given).expect("a role is JSON"));
    command
}

impl Given<Value> {
    pub(crate) fn from_environment() -> Option<Self> {
        let given = env::var(VARIABLE).ok()?;
        Some(serde_json::from_str(&given).unwrap_or_else(|error| panic!("{VARIABLE}: {error}")))
    }
}

pub(crate) fn play<R: Role>(given: &Given<Value>, connectors: &[Arc<dyn Connector>]) -> Option<ExitCode> {
    if given.role != R::NAME {
        return None;
    }
    let role: R = serde_json::from_value(given.arguments.clone())
        .unwrap_or_else(|error| panic!("{VARIABLE}: {}: {error}", R::NAME));
    let mut config = given.layout.into_iter().fold(given.config.clone(), Config::as_of_layout);
    config.password = given.password.clone().map(Secret::new);
    let runtime = match R::HAS_ONE_THREAD {
        true => Builder::new_current_thread().enable_all().build().expect("a runtime starts"),
        false => runtime(false),
    };
    let ended = runtime.block_on(role.work(connectors, &config));
    // A read of standard input cannot be cancelled.
    runtime.shutdown_background();
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", R::NAME);
            ExitCode::FAILURE
        }
    })
}
