use std::io::{self, BufRead, IsTerminal, Write};

use futures_util::future::join_all;
use latchwork::Config;
use latchwork_bench::Target;
use latchwork_servers::{Clocks, Kind, Options, Server, ServerError};
use uuid::Uuid;

use crate::exit;
use crate::failure::{Failure, warn};
use crate::settings::at_url;

const NAMESPACE: &str = "latchwork-compare";

#[derive(Clone, Debug)]
pub(super) enum Source {
    Memory,
    /// With `or_none` only if its program is found.
    Started {
        kind: Kind,
        or_none: bool,
    },
    Given {
        kind: Kind,
        url: String,
        config: Box<Config>,
    },
}

/// Without names, memory and all servers that are found.
pub(super) fn chosen(named: &[String]) -> Result<Vec<Source>, Failure> {
    let compiled = latchwork::compiled_backends();
    if named.is_empty() {
        let (kinds, missing): (Vec<_>, Vec<_>) =
            Kind::ALL.into_iter().partition(|kind| compiled.contains(&kind.name()));
        for kind in missing {
            warn(format!("{kind} is left out: this build lacks it; build with --features {kind} to add it"));
        }
        let started = kinds.into_iter().map(|kind| Source::Started { kind, or_none: true });
        return Ok([Source::Memory].into_iter().chain(started).collect());
    }
    let sources = named.iter().map(|name| source(name)).collect::<Result<Vec<_>, _>>()?;
    for source in &sources {
        let (Source::Started { kind, .. } | Source::Given { kind, .. }) = source else { continue };
        if !compiled.contains(&kind.name()) {
            return Err(Failure::usage(format!("this build lacks {kind}"))
                .next(format!("build the program with --features {kind}")));
        }
    }
    Ok(sources)
}

fn source(name: &str) -> Result<Source, Failure> {
    if name == "memory" || name == "memory://" {
        return Ok(Source::Memory);
    }
    if !name.contains("://") {
        let unknown = |_| {
            Failure::usage(format!("{name:?} is neither a URL nor a kind of coordinator"))
                .next("give URLs such as redis://host, or the kinds memory, redis, zookeeper, etcd")
        };
        return Ok(Source::Started { kind: name.parse().map_err(unknown)?, or_none: false });
    }
    let config = at_url(name)?;
    let kind = config.backend.parse().map_err(|error: String| {
        Failure::usage(error).next("give a URL with redis://, zookeeper:// or etcd://, or the word memory")
    })?;
    latchwork::check(&config)
        .map_err(|error| Failure::usage(error.to_string()).next("correct the option, or remove it"))?;
    Ok(Source::Given { kind, url: name.to_owned(), config: Box::new(config) })
}

pub(super) fn ask(sources: &[Source], yes: bool, about: std::time::Duration) -> Result<(), Failure> {
    let given: Vec<_> = sources
        .iter()
        .filter_map(|source| match source {
            Source::Given { config, .. } => Some(config.url_without_secrets()),
            _ => None,
        })
        .collect();
    if given.is_empty() || yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!("a question about {} needs a terminal", given.join(" and ")))
            .next("add --yes to measure it without a question"));
    }
    let text = format!(
        "{}\nwill be measured for about {} s: up to 16 requests at once, and a lock whose holder is killed.\n\
         All keys are in a separate namespace {NAMESPACE}-…, which is deleted at the end. The server is not stopped,\n\
         restarted, slowed or filled: trials that would do so are left out. Measure it? Type yes:",
        given.join("\n"),
        about.as_secs(),
    );
    let said = writeln!(anstream::stderr(), "{text}");
    said.map_err(|error| Failure::machine("the question cannot be asked", error))?;
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::machine("the answer cannot be read", error))?;
    match answer.trim().eq_ignore_ascii_case("yes") {
        true => Ok(()),
        false => {
            Err(Failure::new(exit::USAGE, "nothing was measured").next("answer yes, or leave the server out"))
        }
    }
}

pub(super) async fn open(sources: &[Source]) -> Result<Vec<Target>, Failure> {
    let opened = join_all(sources.iter().map(Source::open)).await;
    let targets = opened.into_iter().collect::<Result<Vec<_>, _>>()?;
    let targets: Vec<_> = targets.into_iter().flatten().collect();
    match targets.is_empty() {
        true => Err(Failure::usage("no coordinator to compare").next("name a coordinator")),
        false => Ok(targets),
    }
}

impl Source {
    async fn open(&self) -> Result<Option<Target>, Failure> {
        let (config, server) = match self {
            Source::Memory => {
                let mut config = Config::new("memory");
                config.hosts.push(NAMESPACE.to_owned());
                (config, None)
            }
            Source::Started { kind, or_none } => {
                // Ticks of the servers and waits for the disk belong to the measurement.
                let options = Options::new().clocks(Clocks::Default).own();
                let options = match kind {
                    Kind::Zookeeper => options.args(["-Dzookeeper.forceSync=yes"]),
                    Kind::Redis | Kind::Etcd => options,
                };
                let server = match Server::start(*kind, options).await {
                    Err(ServerError::NotFound { .. }) if *or_none => {
                        warn(format!("{kind} is left out: its program is not on this machine"));
                        return Ok(None);
                    }
                    started => started
                        .map_err(|error| Failure::machine(&format!("{kind} cannot be started"), error))?,
                };
                let mut config = Config::from_url(server.url())?;
                NAMESPACE.clone_into(&mut config.namespace);
                // A hundred clients connect at once.
                config.connect_timeout = std::time::Duration::from_secs(30);
                config.request_timeout = std::time::Duration::from_secs(10);
                (config, Some(server))
            }
            Source::Given { kind, url, config } => {
                let mut config = (**config).clone();
                config.namespace = format!("{NAMESPACE}-{}", Uuid::new_v4().simple());
                (config, Some(Server::at(*kind, url.clone(), Clocks::Default)))
            }
        };
        let failed = |error: latchwork_bench::Error| {
            Failure::new(exit::COORDINATOR, format!("{self}: {error}"))
                .next("check the address, and check that the server runs, or leave this server out")
        };
        let target = Target::compared(config, server, latchwork::connectors()).await.map_err(failed)?;
        Ok(Some(target))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Memory => f.write_str("memory"),
            Source::Started { kind, .. } => write!(f, "{kind}"),
            Source::Given { config, .. } => f.write_str(&config.url_without_secrets()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_coordinator_is_refused_with_its_name() {
        for (name, says) in [
            ("mysql", "\"mysql\" is neither a URL"),
            ("redis-sentinel://:pw@a", "has no service name"),
            ("redis://h?tll=3s", "tll"),
        ] {
            let (what, next) = source(name).unwrap_err().into_parts();
            assert!(what.contains(says) && next.is_some() && !what.contains("pw"), "{name}: {what}");
        }
        assert!(matches!(source("memory"), Ok(Source::Memory)));
        assert!(matches!(source("etcd"), Ok(Source::Started { kind: Kind::Etcd, or_none: false })));
        for (url, of) in [
            ("zookeeper://a,b", Kind::Zookeeper),
            ("redis-sentinel://:pw@a/b", Kind::Redis),
            ("rediss-cluster://a,b", Kind::Redis),
            ("etcd+tls://a", Kind::Etcd),
        ] {
            assert!(matches!(source(url), Ok(Source::Given { kind, .. }) if kind == of), "{url}");
        }
    }
}
