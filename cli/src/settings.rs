//! Which coordinator: a URL, or one by its name in a file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use latchwork::Config;
use serde::Deserialize;

use crate::failure::Failure;

/// Options of all subcommands.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The coordinator: redis://host:port/db, zookeeper://a,b,c/chroot or etcd://a,b,c (with TLS
    /// rediss://, zookeeper+tls:// or etcd+tls://), with options such as
    /// ?ttl=30s&namespace=billing. A password is better placed in the environment or
    /// in the file, since others see a command line [env: LATCHWORK_URL]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "coordinator")]
    url: Option<String>,
    /// A coordinator by its name in the file; it takes precedence over the environment's URL
    #[arg(long, short, global = true, value_name = "NAME")]
    coordinator: Option<String>,
    /// The file with named coordinators [default: latchwork/config.toml in $XDG_CONFIG_HOME or
    /// ~/.config]
    #[arg(long, global = true, env = "LATCHWORK_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Shows what the library logs on standard error; twice: with each acquisition and request
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The name of the one that is meant where none is named.
    #[serde(default)]
    default: Option<String>,
    coordinators: BTreeMap<String, Config>,
}

impl Common {
    /// Shows the library's log, if that was asked for.
    pub(crate) fn log(&self) {
        let filter = match self.verbose {
            0 => return,
            1 => "info",
            _ => "debug",
        };
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }

    /// Whether an option names a coordinator. The environment, which is for all subcommands, does not count.
    #[cfg(feature = "compare")]
    pub(crate) fn names_one(&self) -> bool {
        self.url.is_some() || self.coordinator.is_some()
    }

    /// The URL, where one was given to a subcommand in a place of its own.
    pub(crate) fn with_url(&self, url: Option<&str>) -> Self {
        let mut common = self.clone();
        if let Some(url) = url {
            common.url = Some(url.to_owned());
        }
        common
    }

    /// The configuration of the coordinator that is meant: by `--url`, by `--coordinator`, by the
    /// environment's URL, or the file's default, in this order.
    pub(crate) fn coordinator(&self) -> Result<Config, Failure> {
        let from_environment = || std::env::var("LATCHWORK_URL").ok().filter(|url| !url.is_empty());
        match (&self.url, &self.coordinator) {
            (Some(url), _) => at_url(url),
            (None, Some(name)) => self.named(name),
            (None, None) => from_environment().map_or_else(|| self.default_one(), |url| at_url(&url)),
        }
    }

    fn named(&self, name: &str) -> Result<Config, Failure> {
        let (path, mut file) = self.read()?.ok_or_else(|| {
            Failure::usage(format!("{name:?} is a name, and there is no file of coordinators"))
                .next("write one, or name it in --config")
        })?;
        file.coordinators.remove(name).ok_or_else(|| {
            let names = file.coordinators.into_keys().collect::<Vec<_>>().join(", ");
            Failure::usage(format!("{} has no coordinator {name:?}", path.display()))
                .next(format!("it has: {names}"))
        })
    }

    fn default_one(&self) -> Result<Config, Failure> {
        let none = || {
            Failure::usage("no coordinator is named").next(
                "give --url redis://host, set LATCHWORK_URL, or write a file (`latchwork --help` shows one)",
            )
        };
        let (path, mut file) = self.read()?.ok_or_else(none)?;
        match file.default {
            Some(name) => self.named(&name),
            None if file.coordinators.len() == 1 => Ok(file.coordinators.pop_first().expect("one").1),
            None => Err(Failure::usage(format!("{} has no default among its coordinators", path.display()))
                .next("name one with --coordinator, or set `default` there")),
        }
    }

    /// The file, if there is one. One that is named must be there.
    fn read(&self) -> Result<Option<(PathBuf, File)>, Failure> {
        let Some(path) = self.config.clone().or_else(usual_place) else { return Ok(None) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.config.is_none() => {
                return Ok(None);
            }
            Err(error) => {
                return Err(Failure::usage(format!("{}: {error}", path.display())).next("check --config"));
            }
        };
        let file = parse(&path, &text)?;
        Ok(Some((path, file)))
    }
}

/// The configuration that a URL says.
pub(crate) fn at_url(url: &str) -> Result<Config, Failure> {
    Config::from_url(url)
        .map_err(|error| Failure::usage(error.to_string()).next("a URL looks like redis://host:6379"))
}

/// The error of the parser is not quoted whole: it shows the line, which may hold a password.
fn parse(path: &Path, text: &str) -> Result<File, Failure> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        let at = line.map(|line| format!(" line {line}")).unwrap_or_default();
        Failure::usage(format!("{}{at}: {}", path.display(), error.message()))
            .next("it wants a table [coordinators] of names with a URL, or with the fields of one")
    })
}

fn usual_place() -> Option<PathBuf> {
    let of = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("latchwork/config.toml"))
}

/// How a file looks, for the help.
pub(crate) const FILE: &str = "\
A file of coordinators (TOML), at ~/.config/latchwork/config.toml or where --config says:

  default = \"main\"

  [coordinators]
  main = \"redis://app:secret@cache:6379/0?namespace=billing\"

  [coordinators.east]
  backend = \"zookeeper\"
  hosts = [\"zk1:2181\", \"zk2:2181\", \"zk3:2181\"]
  path = \"app\"
  ttl = \"30s\"";
