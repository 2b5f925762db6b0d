use std::time::Duration;

use etcd_client::GetOptions;
use latchwork_core::LostReason;

use super::connection::Driver;
use super::encode::signed;
use super::request_kind::RequestKind;
use crate::error::{Answer, Past, as_harmless, no_such_revision};

const REASON: Duration = Duration::from_secs(1);

impl Driver {
    /// Waits until the server has forgotten the current lease, or keys on it.
    pub(crate) async fn forgotten(&self) {
        self.incarnations.changed().await;
    }

    pub(crate) async fn why_gone(&self, key: &[u8], created: u64) -> LostReason {
        let forgotten = match tokio::time::timeout(REASON, self.has_created(key, created)).await {
            Ok(Ok(Some(has_created))) => !has_created,
            Ok(_) | Err(_) => self.incarnations.has_changed(),
        };
        if forgotten { LostReason::Forgotten } else { LostReason::Revoked }
    }

    /// `None`: the server has compacted that part of its history.
    async fn has_created(&self, key: &[u8], created: u64) -> Answer<Option<bool>> {
        let options = GetOptions::new().with_revision(signed(created)).with_keys_only();
        let request = || {
            let (mut kv, options) = (self.kv.clone(), options.clone());
            async move {
                match kv.get(key, Some(options)).await {
                    Ok(answer) => Ok(Ok(answer)),
                    Err(error) => no_such_revision(&error).map(Err).ok_or(error),
                }
            }
        };
        let before = self.incarnations.known();
        Ok(match self.send(RequestKind::HISTORY, request).await.map_err(as_harmless)? {
            Ok(answer) => {
                self.answered(before, answer.header());
                Some(!answer.kvs().is_empty())
            }
            Err(Past::Future) => Some(false),
            Err(Past::Compacted) => None,
        })
    }
}
