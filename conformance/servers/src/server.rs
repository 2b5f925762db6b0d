use std::{env, fmt};

use rustix::process::Signal;

use crate::local::Local;
use crate::options::{Clocks, Options};
use crate::{Kind, ServerError};

/// The source of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A given URL. The server is never stopped.
    Environment,
    /// A container. It remains if this process is killed before the drop of the [`Server`].
    Container,
    /// A program of this machine, killed with the [`Server`].
    Binary,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Environment => "environment",
            Origin::Container => "container engine",
            Origin::Binary => "machine",
        })
    }
}

#[derive(Debug)]
enum Backing {
    Environment,
    #[cfg(feature = "containers")]
    Container(Box<super::container::Container>),
    Binary(Box<Local>),
}

/// A running server. A drop stops it, unless its URL was given.
///
/// Methods fail with [`ServerError::NotPossible`] if the origin does not allow them, and with
/// [`ServerError::Stopped`] if the server does not run. After a cancelled [`stop`](Server::stop),
/// [`kill`](Server::kill), [`launch`](Server::launch) or [`restart`](Server::restart) it does not run.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    url: String,
    addr: String,
    clocks: Clocks,
    backing: Backing,
}

impl Server {
    /// Returns a server of this kind, from the first source in the order of the [module](super). A server of
    /// the environment is not contacted.
    ///
    /// # Cancel safety
    /// A cancelled call leaves no server, except a container that the engine is starting at that moment.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is none, otherwise the error of the start.
    pub async fn start(kind: Kind, options: Options) -> Result<Server, ServerError> {
        if let Some(server) = Self::from_environment(kind, &options) {
            return Ok(server);
        }
        let no_container = match Self::from_container(kind, &options).await {
            Ok(server) => return Ok(server),
            Err(why) => why,
        };
        match Local::start(kind, &options).await {
            Ok(local) => {
                let addr = local.binary.addr();
                let backing = Backing::Binary(Box::new(local));
                Ok(Server { kind, url: format!("{kind}://{addr}"), addr, clocks: options.clocks, backing })
            }
            Err(ServerError::NotFound { tried, .. }) => {
                Err(ServerError::NotFound { kind, tried: format!("{no_container}; {tried}") })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the server at this URL. It is never contacted and never stopped.
    pub fn at(kind: Kind, url: impl Into<String>, clocks: Clocks) -> Server {
        let url = url.into();
        Server { kind, addr: first_addr(kind, &url), url, clocks, backing: Backing::Environment }
    }

    fn from_environment(kind: Kind, options: &Options) -> Option<Server> {
        let url = env::var(kind.url_variable()).ok().filter(|url| !url.is_empty())?;
        let fast = env::var(kind.clocks_variable()).is_ok_and(|clocks| clocks == Clocks::Fast.name());
        let clocks = if fast { Clocks::Fast } else { Clocks::Default };
        let refused = options.own
            || !options.args.is_empty()
            || (options.clocks == Clocks::Default && clocks == Clocks::Fast);
        (!refused).then(|| Self::at(kind, url, clocks))
    }

    #[cfg(feature = "containers")]
    async fn from_container(kind: Kind, options: &Options) -> Result<Server, String> {
        if options.own {
            return Err("Options::own excludes a container".to_owned());
        }
        let (container, addr) = super::container::start(kind, options).await?;
        let url = format!("{kind}://{addr}");
        Ok(Server {
            kind,
            url,
            addr,
            clocks: options.clocks,
            backing: Backing::Container(Box::new(container)),
        })
    }

    #[cfg(not(feature = "containers"))]
    async fn from_container(_: Kind, _: &Options) -> Result<Server, String> {
        Err("built without the feature `containers`".to_owned())
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the URL for `latchwork::connect`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the first `host:port` for clients.
    pub fn addr(&self) -> &str {
        &self.addr
    }

    /// Returns the `host:port` for TLS, if [`Options::tls`] was set.
    pub fn tls_addr(&self) -> Option<String> {
        Some(format!("127.0.0.1:{}", self.program()?.binary.tls_port?))
    }

    /// Returns the URL with another address, for a [`Proxy`](crate::proxy::Proxy).
    pub fn url_at(&self, addr: impl fmt::Display) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or((self.kind.name(), &self.url));
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let user = rest[..end].rfind('@').map_or("", |at| &rest[..=at]);
        format!("{scheme}://{user}{addr}{}", &rest[end..])
    }

    /// Returns the source.
    pub fn origin(&self) -> Origin {
        match self.backing {
            Backing::Environment => Origin::Environment,
            #[cfg(feature = "containers")]
            Backing::Container(_) => Origin::Container,
            Backing::Binary(_) => Origin::Binary,
        }
    }

    /// Returns the clocks.
    pub fn clocks(&self) -> Clocks {
        self.clocks
    }

    /// Returns the process id of a started program.
    pub fn pid(&self) -> Option<u32> {
        self.program()?.pid()
    }

    /// Returns the end of the log of a started program.
    pub fn log_tail(&self) -> Option<String> {
        self.program().map(Local::log_tail)
    }

    /// Stops the server in order (SIGTERM). The data remain for [`launch`](Server::launch).
    pub async fn stop(&self) -> Result<(), ServerError> {
        self.local("stop")?.stop().await
    }

    /// Kills the server (SIGKILL). The data remain for [`launch`](Server::launch), but Redis keeps none.
    pub async fn kill(&self) -> Result<(), ServerError> {
        self.local("kill")?.kill().await
    }

    /// Starts the server again on the same port with the same data, unless it runs.
    pub async fn launch(&self) -> Result<(), ServerError> {
        self.local("start again")?.launch().await
    }

    /// Stops and launches it.
    pub async fn restart(&self) -> Result<(), ServerError> {
        self.stop().await?;
        self.launch().await
    }

    /// Pauses the server: connections stay open, requests get no answer, and its clock continues.
    ///
    /// # Cancel safety
    /// A program is paused at the first poll. After a cancelled call, a container may be paused or not.
    pub async fn pause(&self) -> Result<(), ServerError> {
        #[cfg(feature = "containers")]
        if let Backing::Container(container) = &self.backing {
            return container.pause().await.map_err(|error| ServerError::Container(error.to_string()));
        }
        self.local("pause")?.pause().await
    }

    /// Continues a paused server.
    ///
    /// # Cancel safety
    /// As for [`pause`](Server::pause).
    pub async fn resume(&self) -> Result<(), ServerError> {
        #[cfg(feature = "containers")]
        if let Backing::Container(container) = &self.backing {
            return container.unpause().await.map_err(|error| ServerError::Container(error.to_string()));
        }
        self.local("resume")?.signal(Signal::CONT)
    }

    fn local(&self, action: &'static str) -> Result<&Local, ServerError> {
        let refused = ServerError::NotPossible { action, kind: self.kind, origin: self.origin() };
        self.program().ok_or(refused)
    }

    fn program(&self) -> Option<&Local> {
        match &self.backing {
            Backing::Binary(local) => Some(local),
            _ => None,
        }
    }
}

fn first_addr(kind: Kind, url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
    let first = hosts.split(',').next().unwrap_or_default();
    // The colons of an IPv6 address are inside brackets.
    let port = first.rsplit(']').next().is_some_and(|end| end.contains(':'));
    if port { first.to_owned() } else { format!("{first}:{}", kind.default_port()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_address_of_each_url_form_is_found() {
        for (kind, url, addr) in [
            (Kind::Redis, "redis://localhost", "localhost:6379"),
            (Kind::Redis, "redis://user:p%40ss@h:7000/2?ttl=10s", "h:7000"),
            (Kind::Zookeeper, "zookeeper://a:1,b:2,c/chroot", "a:1"),
            (Kind::Etcd, "etcd://[::1]", "[::1]:2379"),
            (Kind::Etcd, "etcd://[::1]:5?namespace=x", "[::1]:5"),
        ] {
            assert_eq!(first_addr(kind, url), addr, "{url}");
        }
    }

    #[test]
    fn url_for_a_proxy_changes_only_the_address() {
        let at = |url: &str| {
            let server = Server {
                kind: Kind::Redis,
                url: url.to_owned(),
                addr: String::new(),
                clocks: Clocks::Fast,
                backing: Backing::Environment,
            };
            server.url_at("127.0.0.1:9")
        };
        assert_eq!(at("redis://h:1"), "redis://127.0.0.1:9");
        assert_eq!(at("redis://u:p@h:1,h:2/3?ttl=1s"), "redis://u:p@127.0.0.1:9/3?ttl=1s");
    }
}
