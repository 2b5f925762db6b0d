mod facts;
mod finding;
mod namespace;
mod trials;
mod worth;

use std::time::{Duration, Instant};

use clap::Args;
use latchwork::facts::ServerFacts;
use latchwork::{Config, Coordinator, Error, ErrorKind, operator};

use self::finding::{Finding, Level, print_all};
use crate::exit::{self, Ended};
use crate::failure::{Failure, Outcome};
use crate::settings::Common;

#[derive(Debug, Args)]
pub(crate) struct DoctorOrder {
    /// The coordinator [default: the same as for the other subcommands]
    // Not named `url`, which would replace the option `--url` of all subcommands.
    #[arg(value_name = "URL", conflicts_with_all = ["url", "coordinator"])]
    at: Option<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl DoctorOrder {
    pub(crate) fn run(&self, common: &Common) -> Outcome {
        let config = common.with_url(self.at.as_deref()).coordinator()?;
        if let Some(sides) = &config.moving {
            let [from, to] = [&sides.from, &sides.to].map(Config::url_without_secrets);
            return Err(Failure::usage("the URL of a move has two coordinators")
                .next(format!("examine each side by its own URL: {from} and {to}")));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
        let findings = runtime.block_on(examine(&config));
        print_all(&findings, self.json)?;
        match findings.iter().any(|finding| finding.level == Level::Fault) {
            true => Ok(Ended::With(exit::COORDINATOR)),
            false => Ok(Ended::WELL),
        }
    }
}

async fn examine(config: &Config) -> Vec<Finding> {
    let begun = Instant::now();
    let coordinator = match latchwork::connect(config).await {
        Ok(coordinator) => coordinator,
        Err(error) => return kept_out(config, error).await,
    };
    let mut findings = vec![Finding::good(
        "connection",
        format!("{} answers, connected in {}", config.url_without_secrets(), trials::shown(begun.elapsed())),
    )];
    let facts = facts_of(&coordinator, &mut findings).await;
    findings.push(lease_of(&coordinator, config));
    findings.extend(ranges(config).await);
    findings.extend(worth::of(&coordinator, facts.as_ref()));
    findings.extend(trials::all(&coordinator, config).await);
    closed(&coordinator, &mut findings).await;
    findings
}

/// An operator's client can connect to a namespace with a marker, and to a server that refuses writes.
async fn kept_out(config: &Config, refused: Error) -> Vec<Finding> {
    let may_be_marked = refused.kind() == ErrorKind::Misconfigured;
    let refuses_writes = refused.is_refusal();
    let mut refused = vec![Finding::of_error("connection", refused)];
    if !may_be_marked && !refuses_writes {
        return refused;
    }
    let begun = Instant::now();
    // Without a marker, the server refuses the setting of an operator too.
    let Ok(operator) = operator::connect(config.clone()).await else { return refused };
    let coordinator = operator.coordinator();
    let mut findings = match operator.marker().await {
        Ok(Some(marker)) => {
            let (url, took) = (config.url_without_secrets(), trials::shown(begun.elapsed()));
            let connected = format!("{url} answers an operator, connected in {took}");
            let mut findings = vec![Finding::good("connection", connected), namespace::of(config, &marker)];
            if refuses_writes {
                findings.append(&mut refused);
            }
            let facts = facts_of(coordinator, &mut findings).await;
            findings.extend(worth::of(coordinator, facts.as_ref()));
            findings.push(trials::others(coordinator).await);
            findings.push(
                Finding::note(
                    "rights",
                    "recipes and latency were not tried: no client can acquire in this namespace",
                )
                .next("examine the URL that clients are sent to"),
            );
            findings
        }
        Ok(None) => {
            let facts = facts_of(coordinator, &mut refused).await;
            refused.extend(worth::of(coordinator, facts.as_ref()));
            refused
                .push(Finding::note("rights", "recipes and latency were not tried: no client can connect"));
            refused
        }
        Err(_) => refused,
    };
    closed(coordinator, &mut findings).await;
    findings
}

async fn facts_of(coordinator: &Coordinator, findings: &mut Vec<Finding>) -> Option<ServerFacts> {
    let facts = coordinator.server_facts().await;
    match &facts {
        Ok(facts) => findings.extend(facts::of(facts, coordinator.lease().margin())),
        Err(error) => findings.push(Finding::of_error("server", error.clone())),
    }
    facts.ok()
}

async fn closed(coordinator: &Coordinator, findings: &mut Vec<Finding>) {
    if let Err(error) = coordinator.close().await {
        findings.push(Finding::of_error("close", error));
    }
}

fn lease_of(coordinator: &Coordinator, config: &Config) -> Finding {
    let (lease, asked) = (coordinator.lease(), config.ttl);
    let granted = lease.ttl();
    let time = humantime::format_duration;
    let what = format!(
        "a TTL of {} is granted; a holder without an answer gives up {} earlier",
        time(granted),
        time(lease.margin())
    );
    match granted > asked {
        true => Finding::note("lease", format!("{what} ({} was requested)", time(asked)))
            .next("nothing: a longer TTL only delays the next holder after a holder dies"),
        false => Finding::good("lease", what),
    }
}

async fn ranges(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ttl in [Duration::from_secs(1), Duration::from_secs(3600)] {
        let mut asking = config.clone();
        asking.ttl = ttl;
        let time = humantime::format_duration;
        findings.push(match latchwork::connect(&asking).await {
            Ok(coordinator) => {
                let granted = coordinator.lease().ttl();
                let closed = coordinator.close().await;
                let what = format!("for a TTL of {} the server grants {}", time(ttl), time(granted));
                match closed {
                    Ok(()) => Finding::good("TTL range", what),
                    Err(error) => Finding::of_error("TTL range", error),
                }
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::InvalidArgument { .. }) =>
            {
                Finding::note("TTL range", format!("a TTL of {} is refused: {error}", time(ttl)))
                    .next("nothing, unless you need this TTL")
            }
            Err(error) => Finding::of_error("TTL range", error),
        });
    }
    findings
}
