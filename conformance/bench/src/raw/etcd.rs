use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
};
use latchwork_core::backend::NodeId;

use super::{AtOnce, Pair, Result, SAME, SAME_OF_THREE, Subject, THREE, Target};
use crate::target::NAMESPACE;

const TTL: i64 = 600;

pub(crate) async fn client(target: &Target) -> Result<Client> {
    let options = match (&target.config.user, &target.config.password) {
        (Some(user), Some(password)) => Some(ConnectOptions::new().with_user(user, password.expose())),
        _ => None,
    };
    let endpoint = format!("http://{}", target.addr().unwrap_or_default());
    Ok(Client::connect([endpoint], options).await?)
}

pub(super) async fn subjects(target: &Target) -> Result<Vec<Subject>> {
    let mut client = client(target).await?;
    let mut same = Vec::new();
    for key in [&["m1"][..], &THREE].concat() {
        let lease = client.lease_grant(TTL, None).await?.id();
        same.push(Box::new(EtcdMutex::new(client.clone(), lease, key)));
    }
    let mut pairs = same.into_iter().map(|same| -> Box<dyn Pair> { same });
    let one = pairs.next().ok_or("there is one")?;
    Ok(vec![
        Subject { peer: SAME, pair: one },
        Subject { peer: SAME_OF_THREE, pair: Box::new(AtOnce(pairs.collect())) },
    ])
}

struct EtcdMutex {
    client: Client,
    lease: i64,
    key: String,
    join: Txn,
}

impl EtcdMutex {
    fn new(client: Client, lease: i64, key: &str) -> Self {
        let (id, queue) = (NodeId::random(), format!("{NAMESPACE}-raw/mutex/{key}/"));
        let key = format!("{queue}{lease:x}-{id}");
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
                TxnOp::get(queue, Some(range)),
            ])
            .or_else([TxnOp::get(key.as_str(), None), TxnOp::get(tombstone, None)]);
        Self { client, lease, key, join }
    }
}

#[async_trait]
impl Pair for EtcdMutex {
    async fn once(&mut self) -> Result<()> {
        let joined = self.client.txn(self.join.clone()).await?;
        let left = self.client.delete(self.key.as_str(), None).await?;
        if joined.succeeded() && left.deleted() == 1 {
            Ok(())
        } else {
            Err("the raw key belongs to another client".into())
        }
    }

    async fn end(&mut self) -> Result<()> {
        self.client.lease_revoke(self.lease).await?;
        Ok(())
    }
}
