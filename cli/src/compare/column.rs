//! One coordinator of a report.

use std::collections::BTreeMap;

use latchwork::Coordinator;
use latchwork_bench::Target;
use serde::{Deserialize, Serialize};

use super::guarantees;
use super::plan::Plan;

/// One coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Column {
    /// The unique name in this report.
    pub(super) name: String,
    /// `memory`, `redis`, `zookeeper` or `etcd`.
    pub(super) kind: String,
    pub(super) origin: Origin,
    /// The version that the server reports.
    pub(super) version: Option<String>,
    /// Without a password.
    pub(super) url: String,
    /// The TTL that the server grants by default.
    pub(super) ttl_s: f64,
    /// The trials that were left out, with the reason.
    pub(super) left_out: Vec<LeftOut>,
    /// The trials that failed.
    pub(super) failed: Vec<LeftOut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    /// The store of the program's own process.
    Process,
    /// Started for this run, on the same machine.
    Started,
    /// Given by its URL.
    Given,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) what: String,
    pub(super) why: String,
}

impl Column {
    /// The column of a coordinator before it is measured, and its promises.
    pub(super) async fn of(
        target: &Target,
        name: String,
        plan: &Plan,
    ) -> latchwork_bench::Result<(Self, BTreeMap<&'static str, String>)> {
        let client = target.open().await?;
        let promised = guarantees::of(&client);
        let ttl_s = client.lease().ttl().as_secs_f64();
        let version = match target.server() {
            Some(_) => version(&client).await,
            // Memory is a part of this program.
            None => None,
        };
        client.close().await?;
        let mut left_out: Vec<_> = plan
            .trials()
            .filter_map(|trial| {
                Some(LeftOut { what: trial.to_string(), why: trial.unfit(target)?.to_owned() })
            })
            .collect();
        if target.is_given() {
            let why = "a given server also counts the requests of other clients".to_owned();
            left_out.push(LeftOut { what: "requests".to_owned(), why });
        }
        let origin = match target.server() {
            None => Origin::Process,
            Some(_) if target.is_given() => Origin::Given,
            Some(_) => Origin::Started,
        };
        let column = Column {
            name,
            kind: target.name().to_owned(),
            origin,
            version,
            url: target.config().url_without_secrets(),
            ttl_s,
            left_out,
            failed: Vec::new(),
        };
        Ok((column, promised))
    }
}

/// The reported version, with the product if it is not the name of the backend; `None` if it is unknown.
async fn version(client: &Coordinator) -> Option<String> {
    let facts = client.server_facts().await.ok()?;
    let version = facts.version.told()?;
    match facts.product.eq_ignore_ascii_case(client.backend().name()) {
        true => Some(version.clone()),
        false => Some(format!("{} {version}", facts.product)),
    }
}
