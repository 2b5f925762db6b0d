//! Which coordinators are compared: this process, servers started here, and servers that were given.

use std::io::{self, BufRead, IsTerminal, Write};

use futures_util::future::join_all;
use latchwork::Config;
use latchwork_bench::Target;
use latchwork_servers::{Clocks, Kind, Options, Server, ServerError};
use uuid::Uuid;

use crate::exit;
use crate::failure::{Failure, warn};
use crate::settings::at_url;

/// The namespace on servers of our own, and the beginning of those on others'.
const NAMESPACE: &str = "latchwork-compare";

/// One coordinator that is asked for.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The store of this process.
    Memory,
    /// A server of this kind, started here; if `or_none`, only where its program is found.
    Started { kind: Kind, or_none: bool },
    /// A server by its URL.
    Given { kind: Kind, url: String, config: Box<Config> },
}

/// What is named, or memory and all that is found.
pub(super) fn chosen(named: &[String]) -> Result<Vec<Source>, Failure> {
    let compiled = latchwork::compiled_backends();
    if named.is_empty() {
        let (kinds, missing): (Vec<_>, Vec<_>) =
            Kind::ALL.into_iter().partition(|kind| compiled.contains(&kind.name()));
        for kind in missing {
            warn(format!(
                "this build has no {kind}: it is left out; --features {kind} adds it as the program is built"
            ));
        }
        let started = kinds.into_iter().map(|kind| Source::Started { kind, or_none: true });
        return Ok([Source::Memory].into_iter().chain(started).collect());
    }
    let sources = named.iter().map(|name| source(name)).collect::<Result<Vec<_>, _>>()?;
    for source in &sources {
        let (Source::Started { kind, .. } | Source::Given { kind, .. }) = source else { continue };
        if !compiled.contains(&kind.name()) {
            return Err(Failure::usage(format!("this build has no {kind}"))
                .next(format!("install it with --features {kind}")));
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
            Failure::usage(format!("{name:?} is no URL, and no kind of coordinator"))
                .next("give URLs such as redis://host, or some of memory, redis, zookeeper and etcd")
        };
        return Ok(Source::Started { kind: name.parse().map_err(unknown)?, or_none: false });
    }
    let config = at_url(name)?;
    let kind = config.backend.parse().map_err(|error: String| {
        Failure::usage(error).next("give a URL of redis://, zookeeper:// or etcd://, or the word memory")
    })?;
    latchwork::check(&config)
        .map_err(|error| Failure::usage(error.to_string()).next("correct the option, or leave it out"))?;
    Ok(Source::Given { kind, url: name.to_owned(), config: Box::new(config) })
}

/// Asks before anything is done on servers that were given.
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
        return Err(Failure::usage(format!(
            "{} was given, and nobody is there to be asked",
            given.join(" and ")
        ))
        .next("give --yes if it may be measured"));
    }
    let text = format!(
        "{}\nwill be measured for about {} s in all: up to 16 requests at once, and a lock whose holder is killed.\n\
         All keys are in a namespace {NAMESPACE}-… of its own, which is deleted at the end. It is not stopped,\n\
         restarted or slowed, nor filled: what would do that is left out. Go on? Type yes:",
        given.join("\n"),
        about.as_secs(),
    );
    let said = writeln!(anstream::stderr(), "{text}");
    said.map_err(|error| Failure::machine("the question cannot be asked", error))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| Failure::machine("no answer", error))?;
    match answer.trim().eq_ignore_ascii_case("yes") {
        true => Ok(()),
        false => {
            Err(Failure::new(exit::USAGE, "nothing was measured").next("answer yes, or leave the server out"))
        }
    }
}

/// Starts and reaches all of them, beside each other.
pub(super) async fn open(sources: &[Source]) -> Result<Vec<Target>, Failure> {
    let opened = join_all(sources.iter().map(Source::open)).await;
    let targets = opened.into_iter().collect::<Result<Vec<_>, _>>()?;
    let targets: Vec<_> = targets.into_iter().flatten().collect();
    match targets.is_empty() {
        true => Err(Failure::usage("there is nothing to compare").next("name a coordinator")),
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
                // As servers are out of the box: their ticks, and the disk that they wait for, are a
                // part of what is measured.
                let options = Options::new().clocks(Clocks::Default).own();
                let options = match kind {
                    Kind::Zookeeper => options.args(["-Dzookeeper.forceSync=yes"]),
                    Kind::Redis | Kind::Etcd => options,
                };
                let server = match Server::start(*kind, options).await {
                    Err(ServerError::NotFound { .. }) if *or_none => {
                        warn(format!("no program of {kind} is on this machine: it is left out"));
                        return Ok(None);
                    }
                    started => started.map_err(|error| Failure::machine(&format!("no {kind}"), error))?,
                };
                let mut config = Config::from_url(server.url())?;
                NAMESPACE.clone_into(&mut config.namespace);
                // A hundred clients connect at once, on a machine that does much else.
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
                .next("check the address and that the server runs, or leave it out")
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
    fn what_is_no_coordinator_is_refused_by_its_name() {
        for (name, says) in [
            ("mysql", "\"mysql\" is no URL"),
            ("redis-sentinel://:pw@a", "names no service"),
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
