use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use latchwork_conformance::selection::Tier;
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::{Beds, Ended, report};
use libtest_mimic::Arguments;

use super::{Chosen, Outcome, backends};

/// The options of `run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// memory, redis, zookeeper or etcd (a server is found or started), a topology such as redis-cluster (its servers are
    /// started), or the URL of a server.
    #[arg(long, default_value = "memory")]
    backend: String,
    #[command(flatten)]
    chosen: Chosen,
    /// The tier. 1: each case except chaos; cases of client code run on one of the three servers. 2: chaos; on a topology,
    /// the cases in which it differs (a topology has no tier 1). 3: each case with each adapter.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = Tier::from_str)]
    tier: Tier,
    /// The number of cases that run at once.
    #[arg(long, value_name = "NUMBER")]
    test_threads: Option<usize>,
    /// Writes the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The server at the URL has fast clocks (ZooKeeper: a tick of 100 ms).
    #[arg(long)]
    fast_clocks: bool,
    /// The page with the commands that create a user with the least rights: the guide's `trust.md`. Needed by redis-acl and
    /// etcd-auth.
    #[arg(long, value_name = "FILE")]
    rights: Option<PathBuf>,
}

impl RunArgs {
    pub(super) fn run(self) -> Outcome<ExitCode> {
        let cases = self.chosen.selection()?.cases_on(&self.backend, self.tier);
        if cases.is_empty() {
            return Err(format!(
                "{} plays none of these cases in this tier: use --tier 3 to play each case on each backend",
                self.backend
            )
            .into());
        }
        let runtime = super::runtime()?;
        let leak = |testbed| -> &'static dyn Testbed { Box::leak(testbed) };
        let shared = leak(backends::open(&runtime, &self.backend, self.fast_clocks, self.rights.as_deref())?);
        let alone = match cases.iter().any(|case| case.alone) {
            true => backends::open_alone(&runtime, &self.backend)?.map(leak),
            false => None,
        };
        // The result shows the panic.
        std::panic::set_hook(Box::new(|_| {}));
        let arguments = Arguments { test_threads: self.test_threads, ..Arguments::default() };
        let Ended { rows, code } = latchwork_conformance::run(arguments, Beds { shared, alone }, cases);
        for testbed in [Some(shared), alone].into_iter().flatten() {
            runtime.block_on(testbed.close());
        }
        report::store(&rows)?;
        if let Some(file) = self.json {
            let text = serde_json::to_string_pretty(&rows)?;
            fs::write(&file, text)
                .map_err(|error| format!("the results cannot be written to {}: {error}", file.display()))?;
        }
        Ok(code)
    }
}
