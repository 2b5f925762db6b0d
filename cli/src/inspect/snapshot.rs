use std::collections::BTreeSet;
use std::time::Duration;

use latchwork::Claim;
use latchwork::operator::{Course, GateMarker};
use latchwork::{Address, Config, Coordinator, Kind, Result};
use latchwork_core::backend::{EntryPage, QueueEntry, marker_of};
use serde::Serialize;

use super::reason::waits_for;
use super::target::Target;

const MOST: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Snapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) marker: Option<Marker>,
    pub(crate) queues: Vec<Queue>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Marker {
    /// `leaves` or `arrives`.
    course: &'static str,
    /// `None` if the namespace is retired.
    #[serde(rename = "move")]
    name: Option<String>,
    url: String,
    #[serde(skip)]
    pub(super) words: String,
}

impl From<GateMarker> for Marker {
    fn from(marker: GateMarker) -> Self {
        let course = match marker.course {
            Course::Leaves => "leaves",
            Course::Arrives => "arrives",
        };
        let words = marker.to_string();
        Self { course, name: marker.name, url: marker.url, words }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Queue {
    pub(crate) kind: &'static str,
    pub(crate) key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) more: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    /// From 1.
    pub(crate) place: usize,
    pub(crate) holds: bool,
    /// The fencing token of an exclusive holder.
    pub(crate) sequence: u64,
    pub(crate) claim: Claim,
    pub(crate) label: String,
    /// If the server reports it.
    #[serde(serialize_with = "seconds")]
    pub(crate) age: Option<Duration>,
    /// Without another renewal, if the server reports it.
    #[serde(serialize_with = "seconds")]
    pub(crate) lease_left: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits_for: Option<String>,
}

#[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
fn seconds<S: serde::Serializer>(
    age: &Option<Duration>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    age.map(|age| age.as_secs_f64()).serialize(serializer)
}

impl Snapshot {
    /// One request for the marker, one for each page of queues, and one for each queue (two for a semaphore).
    pub(crate) async fn take(coordinator: &Coordinator, config: &Config, target: &Target) -> Result<Self> {
        let names = addresses(coordinator, config, target).await?;
        Self::read(coordinator, &names, target).await
    }

    pub(super) async fn read(
        coordinator: &Coordinator,
        names: &BTreeSet<Address>,
        target: &Target,
    ) -> Result<Self> {
        let marker = marker_of(coordinator).await?.map(Marker::from);
        let mut queues = Vec::new();
        for address in names {
            let queue = Queue::read(coordinator, address).await?;
            // It has become empty since the listing.
            if !queue.nodes.is_empty() || matches!(target, Target::Queue(_)) {
                queues.push(queue);
            }
        }
        Ok(Self { marker, queues })
    }
}

pub(super) async fn addresses(
    coordinator: &Coordinator,
    config: &Config,
    target: &Target,
) -> Result<BTreeSet<Address>> {
    match target {
        Target::Queue(queue) => {
            Ok(BTreeSet::from([Address::new(&config.namespace, queue.kind, queue.key.as_str())?]))
        }
        Target::Prefix { kinds, prefix } => {
            let mut found = BTreeSet::new();
            for kind in kinds {
                let queues = coordinator.list(*kind, prefix)?.all().await?;
                found.extend(queues.into_iter().map(|listed| listed.address));
            }
            Ok(found)
        }
    }
}

impl Queue {
    async fn read(coordinator: &Coordinator, address: &Address) -> Result<Self> {
        let backend = coordinator.backend();
        let entries = backend.list(address, EntryPage::new(0, MOST).with_leases()).await?;
        let limit = match address.kind() {
            Kind::Semaphore => backend.limit(address).await?,
            _ => None,
        };
        Ok(Self::of(address, limit, &entries))
    }

    fn of(address: &Address, limit: Option<u32>, entries: &[QueueEntry]) -> Self {
        let node = |(at, entry): (usize, &QueueEntry)| Node {
            place: at + 1,
            holds: entry.admitted,
            sequence: entry.sequence,
            claim: entry.claim,
            label: entry.label.clone(),
            age: entry.age,
            lease_left: entry.lease_left,
            waits_for: waits_for(entries, at, limit),
        };
        Self {
            kind: address.kind().as_str(),
            key: address.name().to_owned(),
            limit,
            nodes: entries.iter().enumerate().map(node).collect(),
            more: entries.len() == MOST,
        }
    }
}
