use std::collections::BTreeMap;

use latchwork::Coordinator;
use latchwork_bench::Target;
use serde::{Deserialize, Serialize};

use super::guarantees;
use super::plan::Plan;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) origin: Origin,
    pub(super) version: Option<String>,
    /// Without a password.
    pub(super) url: String,
    /// The default grant of the server.
    pub(super) ttl_s: f64,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) failed: Vec<LeftOut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    Process,
    Started,
    Given,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) what: String,
    pub(super) why: String,
}

impl Column {
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

/// With the product, if it is not the backend's name.
async fn version(client: &Coordinator) -> Option<String> {
    let facts = client.server_facts().await.ok()?;
    let version = facts.version.told()?;
    match facts.product.eq_ignore_ascii_case(client.backend().name()) {
        true => Some(version.clone()),
        false => Some(format!("{} {version}", facts.product)),
    }
}
