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
    /// ?ttl=30s&namespace=billing. Put a password into the environment or the file, since other
    /// users can read a command line [env: LATCHWORK_URL]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "coordinator")]
    url: Option<String>,
    /// The name of a coordinator in the file; it takes precedence over the URL in the environment
    #[arg(long, short, global = true, value_name = "NAME")]
    coordinator: Option<String>,
    /// The file of named coordinators [default: latchwork/config.toml in $XDG_CONFIG_HOME or
    /// ~/.config]
    #[arg(long, global = true, env = "LATCHWORK_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints the library's log on standard error; -vv adds each acquisition and request
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    default: Option<String>,
    coordinators: BTreeMap<String, Config>,
}

impl Common {
    pub(crate) fn log(&self) {
        let filter = match self.verbose {
            0 => return,
            1 => "info",
            _ => "debug",
        };
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }

    /// All subcommands share the environment.
    #[cfg(feature = "compare")]
    pub(crate) fn names_one(&self) -> bool {
        self.url.is_some() || self.coordinator.is_some()
    }

    pub(crate) fn with_url(&self, url: Option<&str>) -> Self {
        let mut common = self.clone();
        if let Some(url) = url {
            common.url = Some(url.to_owned());
        }
        common
    }

    /// In this order: `--url`, `--coordinator`, the URL in the environment, the file's default.
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
            Failure::usage(format!("coordinator {name:?}: no file of coordinators exists"))
                .next("write the file (`latchwork --help` shows an example), or give its path with --config")
        })?;
        file.coordinators.remove(name).ok_or_else(|| {
            let names = file.coordinators.into_keys().collect::<Vec<_>>().join(", ");
            Failure::usage(format!("{} has no coordinator {name:?}", path.display()))
                .next(format!("it has: {names}"))
        })
    }

    fn default_one(&self) -> Result<Config, Failure> {
        let none = || {
            Failure::usage("no coordinator is named")
                .next("give --url redis://host, set LATCHWORK_URL, or write a file (see `latchwork --help`)")
        };
        let (path, mut file) = self.read()?.ok_or_else(none)?;
        match file.default {
            Some(name) => self.named(&name),
            None if file.coordinators.len() == 1 => Ok(file.coordinators.pop_first().expect("one").1),
            None => {
                Err(Failure::usage(format!("{} names several coordinators and no default", path.display()))
                    .next("choose a coordinator with --coordinator, or set `default` in the file"))
            }
        }
    }

    /// A file that `--config` names must exist.
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

pub(crate) fn at_url(url: &str) -> Result<Config, Failure> {
    Config::from_url(url)
        .map_err(|error| Failure::usage(error.to_string()).next("a URL looks like redis://host:6379"))
}

/// The parser's full error quotes the line, which can contain a password.
fn parse(path: &Path, text: &str) -> Result<File, Failure> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        let at = line.map(|line| format!(" line {line}")).unwrap_or_default();
        Failure::usage(format!("{}{at}: {}", path.display(), error.message()))
            .next("write a table [coordinators]: for each name a URL, or a table of its parts")
    })
}

fn usual_place() -> Option<PathBuf> {
    let of = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("latchwork/config.toml"))
}

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
