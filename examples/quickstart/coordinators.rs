use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchwork_servers::{Clocks, Kind, Options, Origin, Server, ServerError};
use tokio::task::JoinHandle;

use crate::worker::Plan;

pub(crate) enum Place {
    Here(Stage),
    Absent { backend: &'static str, why: String, how: String },
    Broken { backend: &'static str, why: String },
}

pub(crate) struct Stage {
    backend: &'static str,
    url: String,
    whereabouts: String,
    // `None`: the default.
    tick: Option<Duration>,
    key: String,
    // Dropping it ends a server that was started here.
    _server: Option<Server>,
}

impl Place {
    pub(crate) fn memory() -> Place {
        Place::Here(Stage {
            backend: "memory",
            url: "memory://quickstart".to_owned(),
            whereabouts: "this process".to_owned(),
            tick: None,
            key: key(),
            _server: None,
        })
    }

    pub(crate) fn backend(&self) -> &'static str {
        match self {
            Place::Here(stage) => stage.backend,
            Place::Absent { backend, .. } | Place::Broken { backend, .. } => backend,
        }
    }
}

impl Stage {
    fn of(server: Server) -> Stage {
        let whereabouts = match server.origin() {
            Origin::Environment => format!("{}, from {}", server.addr(), server.kind().url_variable()),
            _ => format!("{}, started here", server.addr()),
        };
        let fast = server.kind() == Kind::Zookeeper && server.clocks() == Clocks::Fast;
        Stage {
            backend: server.kind().name(),
            url: server.url().to_owned(),
            whereabouts,
            tick: fast.then(|| server.clocks().zookeeper_tick()),
            key: key(),
            _server: Some(server),
        }
    }

    pub(crate) fn backend(&self) -> &'static str {
        self.backend
    }

    /// Without secrets of the URL.
    pub(crate) fn whereabouts(&self) -> &str {
        &self.whereabouts
    }

    pub(crate) fn plan(&self, worker: usize) -> Plan {
        Plan { worker, url: self.url.clone(), tick: self.tick, key: self.key.clone() }
    }

    /// A memory store is shared only within one process.
    pub(crate) fn has_processes(&self) -> bool {
        self.backend != "memory"
    }
}

pub(crate) struct Search {
    backend: &'static str,
    place: JoinHandle<Place>,
}

impl Search {
    pub(crate) async fn found(self) -> Place {
        let backend = self.backend;
        self.place.await.unwrap_or_else(|error| Place::Broken { backend, why: error.to_string() })
    }
}

pub(crate) fn search() -> Vec<Search> {
    let search = |kind: Kind| Search { backend: kind.name(), place: tokio::spawn(look_for(kind)) };
    Kind::ALL.into_iter().map(search).collect()
}

async fn look_for(kind: Kind) -> Place {
    let backend = kind.name();
    if !latchwork::compiled_backends().contains(&backend) {
        let needs = if kind == Kind::Etcd { " (needs protoc)" } else { "" };
        return Place::Absent {
            backend,
            why: format!("build with --features {backend}{needs}"),
            how: format!("cargo run --example quickstart --features {backend}"),
        };
    }
    match Server::start(kind, Options::new()).await {
        Ok(server) => Place::Here(Stage::of(server)),
        Err(ServerError::NotFound { .. }) => Place::Absent {
            backend,
            why: "no server found".to_owned(),
            how: format!(
                "name a server in {}, or install one\n    (Debian, Ubuntu: apt-get install {})",
                kind.url_variable(),
                kind.packages()
            ),
        },
        Err(error) => Place::Broken { backend, why: error.to_string() },
    }
}

fn key() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("quickstart-{}-{now}", std::process::id())
}
