use async_trait::async_trait;
use zookeeper_client::{Acls, Client, CreateMode, Error, MultiWriteResult, OneshotWatcher};

use super::super::zookeeper::client;
use super::{Hear, Pair, Result, Target, Write};
use crate::target::NAMESPACE;

/// As long as a counter with one writer.
const VALUE: &[u8] = &[b'.'; 48];

fn directory() -> String {
    format!("/{NAMESPACE}-raw/cells")
}

async fn make(client: &Client, path: &str) -> Result<()> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir(&directory(), &options).await?;
    match client.create(path, VALUE, &options).await {
        Ok(_) | Err(Error::NodeExists) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn writing(target: &Target, key: &str, write: Write) -> Result<Box<dyn Pair>> {
    let (client, directory) = (client(target).await?, directory());
    let path = format!("{directory}/{key}");
    make(&client, &path).await?;
    let generation = client.check_stat(&directory).await?.ok_or("no raw directory")?.version;
    let version = client.check_stat(&path).await?.ok_or("no raw cell")?.version;
    Ok(match write {
        Write::OnVersion => Box::new(OnVersion { client, directory, generation, path, version }),
        Write::Anyhow => Box::new(Anyhow { client, directory, path }),
    })
}

struct OnVersion {
    client: Client,
    directory: String,
    generation: i32,
    path: String,
    version: i32,
}

#[async_trait]
impl Pair for OnVersion {
    async fn once(&mut self) -> Result<()> {
        let mut transaction = self.client.new_multi_writer();
        transaction.add_check_version(&self.directory, self.generation)?;
        transaction.add_set_data(&self.path, VALUE, Some(self.version))?;
        let written = transaction.commit().await?;
        let stat = written.iter().rev().find_map(|result| match result {
            MultiWriteResult::SetData { stat } => Some(stat),
            _ => None,
        });
        self.version = stat.ok_or("a write without a stat")?.version;
        Ok(())
    }
}

struct Anyhow {
    client: Client,
    directory: String,
    path: String,
}

#[async_trait]
impl Pair for Anyhow {
    async fn once(&mut self) -> Result<()> {
        let mut transaction = self.client.new_multi_writer();
        transaction.add_set_data(&self.path, VALUE, None)?;
        let generation = self.client.check_stat(&self.directory);
        let written = transaction.commit();
        generation.await?;
        written.await?;
        Ok(())
    }
}

pub(super) async fn watching(target: &Target, key: &str) -> Result<Box<dyn Hear>> {
    let (client, directory) = (client(target).await?, directory());
    let path = format!("{directory}/{key}");
    make(&client, &path).await?;
    let (_, armed) = client.check_and_watch_stat(&path).await?;
    Ok(Box::new(ZookeeperWatcher { client, directory, path, armed: Some(armed) }))
}

struct ZookeeperWatcher {
    client: Client,
    directory: String,
    path: String,
    armed: Option<OneshotWatcher>,
}

#[async_trait]
impl Hear for ZookeeperWatcher {
    async fn hear(&mut self, _round: u64) -> Result<()> {
        self.armed.take().ok_or("no watch is armed")?.changed().await;
        // Armed before the read, so that no change between them is missed.
        self.armed = Some(self.client.check_and_watch_stat(&self.path).await?.1);
        let synced = self.client.sync(&self.directory);
        let generation = self.client.check_stat(&self.directory);
        let value = self.client.get_data(&self.path);
        synced.await?;
        generation.await?;
        value.await?;
        Ok(())
    }
}
