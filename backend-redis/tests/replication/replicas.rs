//! Each replica has a proxy that can delay its link.

use latchwork_conformance::actions::in_turn;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Server;

use crate::common::{Operator, own, soon};

/// The default delay is 5 s.
const PROMPT: &[&str] = &["--repl-diskless-sync-delay", "0"];

pub(crate) struct Replicas {
    pub(crate) primary: Server,
    servers: [Server; 2],
    links: [Proxy; 2],
}

impl Replicas {
    pub(crate) async fn start() -> Self {
        let (primary, first, second) = tokio::join!(own(PROMPT), own(PROMPT), own(PROMPT));
        let links = in_turn((0..2).map(async |_| Proxy::start(primary.addr()).await.unwrap())).await;
        let links = links.try_into().unwrap();
        let replicas = Self { primary, servers: [first, second], links };
        replicas.follow().await;
        replicas
    }

    pub(crate) fn url(&self, options: &str) -> String {
        format!("{}?{options}", self.primary.url())
    }

    pub(crate) fn url_of(&self, replica: usize, options: &str) -> String {
        format!("{}?{options}", self.servers[replica].url())
    }

    pub(crate) fn hold_back(&self, replica: usize) {
        self.links[replica].hold(Direction::ToClient);
    }

    pub(crate) fn hold_back_all(&self) {
        (0..self.links.len()).for_each(|replica| self.hold_back(replica));
    }

    pub(crate) fn let_through(&self, replica: usize) {
        self.links[replica].resume();
    }

    pub(crate) async fn fail_over_to(&self, replica: usize) {
        self.primary.kill().await.unwrap();
        let mut operator = Operator::of(&self.servers[replica]).await;
        operator.tell("REPLICAOF NO ONE").await;
    }

    pub(crate) async fn fail_over_in_place_to(&self, replica: usize) {
        self.fail_over_to(replica).await;
        let mut operator = Operator::of(&self.servers[replica]).await;
        operator.tell(&format!("CONFIG SET port {}", self.port())).await;
    }

    pub(crate) async fn divide(&self) {
        let [first, second] = &self.servers;
        let (_, port) = first.addr().rsplit_once(':').expect("a port");
        self.follow_at(second, port).await;
        let mut operator = Operator::of(first).await;
        operator.tell("REPLICAOF NO ONE").await;
        operator.tell("SET written 1").await;
        assert_eq!(soon(operator.say::<usize>("WAIT 1 60000")).await, 1);
        Operator::of(&self.primary).await.tell("CONFIG SET port 0").await;
        operator.tell(&format!("CONFIG SET port {}", self.port())).await;
    }

    pub(crate) async fn begin_again(&self) {
        self.primary.launch().await.unwrap();
        self.follow().await;
    }

    pub(crate) async fn follow_directly(&self) {
        for server in &self.servers {
            self.follow_at(server, &self.port()).await;
        }
        self.caught_up(2).await;
    }

    async fn follow(&self) {
        for (server, link) in self.servers.iter().zip(&self.links) {
            link.resume();
            self.follow_at(server, &link.addr().port().to_string()).await;
        }
        self.caught_up(2).await;
    }

    async fn follow_at(&self, server: &Server, port: &str) {
        let mut operator = Operator::of(server).await;
        operator.tell(&format!("REPLICAOF 127.0.0.1 {port}")).await;
    }

    fn port(&self) -> String {
        let (_, port) = self.primary.addr().rsplit_once(':').expect("a port");
        port.to_owned()
    }

    pub(crate) async fn caught_up(&self, replicas: usize) {
        let mut operator = Operator::of(&self.primary).await;
        operator.tell("SET written 1").await;
        let have: usize = soon(operator.say(&format!("WAIT {replicas} 60000"))).await;
        assert!(have >= replicas, "{have} replicas follow");
    }
}
