//! etcd: the transaction of a join, and a delete.

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
};
use latchwork_core::contracts::NodeId;

use super::{Pair, Result, SAME, Subject, Target};
use crate::bench::target::NAMESPACE;

/// In seconds. Not renewed, so that nothing else is sent; revoked at the end.
const TTL: i64 = 600;

pub(super) async fn subjects(target: &Target) -> Result<Vec<Subject>> {
    let options = match (&target.config.user, &target.config.password) {
        (Some(user), Some(password)) => Some(ConnectOptions::new().with_user(user, password.expose())),
        _ => None,
    };
    let endpoint = format!("http://{}", target.addr().unwrap_or_default());
    let mut client = Client::connect([endpoint], options).await?;
    let lease = client.lease_grant(TTL, None).await?.id();
    let id = NodeId::random();
    let key = format!("{NAMESPACE}-raw/mutex/m1/{lease:x}-{id}");
    let tombstone = format!("{NAMESPACE}-raw/client/{lease:x}/left/{id}");
    let range = GetOptions::new()
        .with_prefix()
        .with_limit(3)
        .with_keys_only()
        .with_sort(SortTarget::Create, SortOrder::Descend);
    let absent = |key: &str| Compare::create_revision(key, CompareOp::Equal, 0);
    let value = r#"{"claim":"Exclusive","label":"raw","joined":1700000000000}"#;
    let join = Txn::new()
        .when([absent(&key), absent(&tombstone)])
        .and_then([
            TxnOp::put(key.as_str(), value, Some(PutOptions::new().with_lease(lease))),
            TxnOp::get(format!("{NAMESPACE}-raw/mutex/m1/"), Some(range)),
        ])
        .or_else([TxnOp::get(key.as_str(), None), TxnOp::get(tombstone, None)]);
    Ok(vec![Subject { peer: SAME, pair: Box::new(Same { client, lease, key, join }) }])
}

struct Same {
    client: Client,
    lease: i64,
    key: String,
    join: Txn,
}

#[async_trait]
impl Pair for Same {
    async fn once(&mut self) -> Result<()> {
        let joined = self.client.txn(self.join.clone()).await?;
        let left = self.client.delete(self.key.as_str(), None).await?;
        if joined.succeeded() && left.deleted() == 1 {
            Ok(())
        } else {
            Err("the raw key was not ours".into())
        }
    }

    async fn end(&mut self) -> Result<()> {
        self.client.lease_revoke(self.lease).await?;
        Ok(())
    }
}
