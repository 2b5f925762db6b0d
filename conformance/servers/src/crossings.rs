//! A Redis announces one port to servers and clients. A [`Door`] at that port knows each server by its source
//! address, [`source`], and sends its connections through a separate proxy, which can be cut. Clients'
//! connections go directly to the Redis.

use std::net::Ipv4Addr;

use crate::ServerError;
use crate::door::Door;
use crate::link::Link;
use crate::proxy::Proxy;
use crate::wiring::Wiring;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    pub(crate) port: u16,
    pub(crate) by: u16,
}

#[derive(Debug)]
pub(crate) struct Crossings {
    links: Vec<Link>,
    _doors: Vec<Door>,
}

impl Crossings {
    /// The sources: the servers, then processes that get no connections (Sentinels).
    pub(crate) async fn open(
        wiring: Wiring<'_>,
        servers: Vec<Vec<Announced>>,
        sources: usize,
    ) -> Result<Option<Self>, ServerError> {
        if !matches!(wiring, Wiring::Cuttable) {
            return Ok(None);
        }
        let (mut links, mut doors) = (Vec::new(), Vec::new());
        for (to, ports) in servers.iter().enumerate() {
            let begin = links.len();
            for from in (0..sources).filter(|from| *from != to) {
                let mut proxies = Vec::new();
                for Announced { port, .. } in ports {
                    let proxy = Proxy::start(format!("127.0.0.1:{port}")).await;
                    proxies.push(proxy.map_err(ServerError::io("starting a proxy"))?);
                }
                links.push(Link { from, to, proxies, door: None });
            }
            for (index, Announced { port, by }) in ports.iter().enumerate() {
                let way = |link: &Link| (source(link.from).into(), link.proxies[index].addr());
                let others = links[begin..].iter().map(way).collect();
                let door = Door::at_port(*by, (Ipv4Addr::LOCALHOST, *port).into(), others).await;
                doors.push(door.map_err(ServerError::io("opening a door between servers"))?);
            }
        }
        Ok(Some(Self { links, _doors: doors }))
    }

    /// No bytes pass, and no connection closes.
    pub(crate) fn cut(&self, server: usize) {
        self.links.iter().filter(|link| link.from == server || link.to == server).for_each(Link::hold);
    }

    pub(crate) fn heal(&self) {
        self.links.iter().for_each(Link::heal);
    }
}

/// For `bind-source-addr`: on Linux all of 127.0.0.0/8 is local.
pub(crate) fn source(server: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(server).expect("few"))
}
