//! A participant that follows the stage, and acknowledges while it is willing.

use std::sync::Arc;

use latchwork::Claim;
use latchwork::{Address, Config, Coordinator, Kind};
use latchwork_core::backend::{Backend, ChangeWatch, Join, Joined, Limit, Node, NodeId, Patience};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Sides;

pub(crate) struct Played {
    sides: [Coordinator; 2],
    willing: watch::Sender<bool>,
    follows: JoinHandle<()>,
}

impl Played {
    pub(crate) async fn new(of: &Sides, label: &str, is_willing: bool) -> Self {
        let config = |url: &str| {
            let mut config = Config::from_url(url).expect("a URL").as_participant(&of.name, label);
            config.label = Some(label.to_owned());
            config
        };
        let (from, to) = (config(&of.from), config(&of.to));
        let [old, new] = [latchwork::connect(&from).await, latchwork::connect(&to).await];
        let (old, new) = (old.expect("a client of the old side"), new.expect("a client of the new side"));
        let records = old.clients().first(100).await.expect("listed");
        let host: Arc<str> =
            records.iter().find(|of| of.label == label).expect("it is listed").host.as_str().into();
        let at = |kind| {
            Address::new(&from.namespace, kind, format!("move/{}", of.name).as_str()).expect("an address")
        };
        let (members, stage) = (at(Kind::Clients), at(Kind::Layout));
        let join = Join {
            queue: members,
            id: NodeId::random(),
            claim: Claim::Shared,
            limit: Limit::Stored,
            label: label.into(),
            data: data(&host, label, ""),
            patience: Patience::Wait,
            repeated: false,
        };
        let Joined::Admitted(node) = old.backend().join(&join).await.expect("a member") else {
            panic!("the queue of members admits every member");
        };
        let (willing, told) = watch::channel(is_willing);
        let follows =
            tokio::spawn(follow(Arc::clone(old.backend()), stage, node, [host, label.into()], told));
        Self { sides: [old, new], willing, follows }
    }

    pub(crate) fn is_willing(&self) {
        self.willing.send_replace(true);
    }

    pub(crate) async fn leaves(self) {
        self.follows.abort();
        for side in self.sides {
            side.close().await.expect("a close");
        }
    }
}

fn data(host: &str, label: &str, acknowledged: &str) -> Arc<[u8]> {
    format!("host={host}&version=0&client={label}{acknowledged}").into_bytes().into()
}

async fn follow(
    backend: Arc<dyn Backend>,
    stage: Address,
    node: Arc<dyn Node>,
    [host, label]: [Arc<str>; 2],
    mut willing: watch::Receiver<bool>,
) {
    let mut watched: Box<dyn ChangeWatch> = backend.watch_cell(&stage);
    watched.changed().await.expect("it is watched");
    loop {
        willing.wait_for(|willing| *willing).await.expect("the test goes on");
        if let Some(cell) = backend.read_cell(&stage).await.expect("it is read") {
            let text = String::from_utf8_lossy(&cell.value);
            let id = text.split('&').find(|field| field.starts_with("id=")).expect("a stage has an identity");
            let acknowledged = format!("&{id}&acknowledged={}", cell.version.number());
            node.write_data(&data(&host, &label, &acknowledged)).await.expect("it exists");
        }
        watched.changed().await.expect("it is watched");
    }
}
