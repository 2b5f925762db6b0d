use async_trait::async_trait;
use etcd_client::{Client, Compare, CompareOp, EventType, Txn, TxnOp, WatchStream};

use super::super::etcd::client;
use super::{Hear, Pair, Result, Target, Write};
use crate::target::NAMESPACE;

/// As long as a counter with one writer.
const VALUE: &[u8] = &[b'.'; 48];

fn cell(key: &str) -> String {
    format!("{NAMESPACE}-raw/cells/{key}")
}

pub(super) async fn writing(target: &Target, key: &str, write: Write) -> Result<Box<dyn Pair>> {
    let (mut client, key) = (client(target).await?, cell(key));
    let put = client.put(key.as_str(), VALUE, None).await?;
    let revision = put.header().ok_or("a put without a revision")?.revision();
    Ok(Box::new(EtcdWriter { client, key, revision: (write == Write::OnVersion).then_some(revision) }))
}

struct EtcdWriter {
    client: Client,
    key: String,
    revision: Option<i64>,
}

#[async_trait]
impl Pair for EtcdWriter {
    async fn once(&mut self) -> Result<()> {
        let key = self.key.as_str();
        let mut compares = vec![Compare::lease(key, CompareOp::Equal, 0)];
        compares.extend(self.revision.map(|at| Compare::mod_revision(key, CompareOp::Equal, at)));
        let write = Txn::new()
            .when(compares)
            .and_then([TxnOp::put(key, VALUE, None)])
            .or_else([TxnOp::get(key, None)]);
        let written = self.client.txn(write).await?;
        if !written.succeeded() {
            return Err("the raw cell was written by another".into());
        }
        if let Some(last) = &mut self.revision {
            *last = written.header().ok_or("a transaction without a revision")?.revision();
        }
        Ok(())
    }
}

pub(super) async fn watching(target: &Target, key: &str) -> Result<Box<dyn Hear>> {
    let (mut client, key) = (client(target).await?, cell(key));
    let mut events = client.watch(key.as_str(), None).await?;
    // The first message only confirms the watch.
    events.message().await?;
    Ok(Box::new(EtcdWatcher { client, key, events }))
}

struct EtcdWatcher {
    client: Client,
    key: String,
    events: WatchStream,
}

#[async_trait]
impl Hear for EtcdWatcher {
    async fn hear(&mut self, _round: u64) -> Result<()> {
        loop {
            let message = self.events.message().await?.ok_or("the watch has ended")?;
            if message.events().iter().any(|event| event.event_type() == EventType::Put) {
                break;
            }
        }
        self.client.get(self.key.as_str(), None).await?;
        Ok(())
    }
}
