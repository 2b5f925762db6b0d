use std::sync::Arc;

use async_trait::async_trait;

use super::place::Place;
use super::record::ClientRecord;
use crate::address::QueuePrefix;
use crate::client::Client;
use crate::contracts::{EntryPage, KeysWith, ListedKey};
use crate::error::Result;
use crate::listing::{Page, Pages, numbered, sequence};

pub(crate) struct Clients {
    client: Arc<Client>,
    place: Place,
}

impl Clients {
    pub(crate) fn new(client: &Arc<Client>, place: &Place) -> Self {
        Self { client: Arc::clone(client), place: place.clone() }
    }
}

#[async_trait]
impl Pages<ClientRecord> for Clients {
    fn name(&self) -> &str {
        &self.place.namespace
    }

    async fn page(&self, after: Option<&str>, most: usize) -> Result<Page<ClientRecord>> {
        let listed = async {
            let page = EntryPage::new(sequence(after)?, most);
            self.client.serve(self.client.backend.list(&self.place.clients, page)).await
        };
        let listed =
            listed.await.map_err(|error| error.in_operation("clients").on(&*self.place.namespace))?;
        let records: Vec<_> = listed.into_iter().map(ClientRecord::from).collect();
        Ok(numbered(records, most, |record| record.sequence))
    }
}

pub(crate) struct Keys {
    client: Arc<Client>,
    of: QueuePrefix,
}

impl Keys {
    pub(crate) fn new(client: &Arc<Client>, of: QueuePrefix) -> Self {
        Self { client: Arc::clone(client), of }
    }

    async fn read(&self, after: Option<&str>, most: usize) -> Result<Page<ListedKey>> {
        let with = if self.of.check_cells().is_ok() { KeysWith::Cell } else { KeysWith::Nodes };
        self.client.backend.list_keys(with, &self.of, after, most).await
    }
}

#[async_trait]
impl Pages<ListedKey> for Keys {
    fn name(&self) -> &str {
        self.of.kind().as_str()
    }

    async fn page(&self, after: Option<&str>, most: usize) -> Result<Page<ListedKey>> {
        let listed = self.client.serve(self.read(after, most)).await;
        listed.map_err(|error| error.in_operation("list"))
    }
}
