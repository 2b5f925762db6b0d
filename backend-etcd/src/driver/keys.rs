//! Requests about keys.

use etcd_client::{DeleteOptions, GetOptions, TxnOpResponse};

use super::connection::Driver;
use super::encode::{end_of, found, range_request, signed, txn_request, unsigned};
use super::request_kind::RequestKind;
use super::txn::{Found, Op, Range, Txn, TxnResult};
use crate::error::{Answer, as_read};

impl Driver {
    /// Runs a transaction.
    pub(crate) async fn txn(&self, txn: Txn) -> Answer<TxnResult> {
        let txn = txn_request(txn);
        let request = || {
            let (mut kv, txn) = (self.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        };
        let before = self.incarnations.known();
        let answer = self.send(RequestKind::Transaction, request).await?;
        self.answered(before, answer.header());
        let mut deleted = None;
        let reads = answer.op_responses().into_iter().filter_map(|response| match response {
            TxnOpResponse::Get(get) => Some(found(&get)),
            TxnOpResponse::Delete(delete) => {
                deleted.get_or_insert(delete.deleted() > 0);
                None
            }
            _ => None,
        });
        let reads = reads.collect();
        Ok(TxnResult {
            succeeded: answer.succeeded(),
            revision: answer.header().map_or(0, |header| unsigned(header.revision())),
            reads,
            deleted: deleted.unwrap_or(false),
        })
    }

    /// Deletes a key, of any create revision. Answers whether it was there.
    pub(crate) async fn delete(&self, key: &[u8]) -> Answer<bool> {
        Ok(self.deleted(key, None).await? > 0)
    }

    /// Deletes all keys with a prefix. Answers how many those were.
    pub(crate) async fn delete_below(&self, prefix: &str) -> Answer<u64> {
        self.deleted(prefix.as_bytes(), Some(DeleteOptions::new().with_prefix())).await
    }

    async fn deleted(&self, key: &[u8], options: Option<DeleteOptions>) -> Answer<u64> {
        let request = || {
            let (mut kv, options) = (self.kv.clone(), options.clone());
            async move { kv.delete(key, options).await }
        };
        let before = self.incarnations.known();
        let answer = self.send(RequestKind::Deletion, request).await?;
        self.answered(before, answer.header());
        Ok(unsigned(answer.deleted()))
    }

    /// Deletes keys one by one, since a full server may refuse even a transaction of deletions.
    /// Answers whether the first was there. What hinders the others stays until its lease ends.
    pub(crate) async fn delete_each(&self, keys: &[Vec<u8>]) -> Answer<bool> {
        let mut first = None;
        for key in keys {
            match (self.delete(key).await, first) {
                (Ok(was_there), None) => first = Some(was_there),
                (Err(failure), None) => return Err(failure),
                (Ok(_), Some(_)) => {}
                (Err(failure), Some(_)) => tracing::debug!(?failure, "a key stays until its lease ends"),
            }
        }
        Ok(first.unwrap_or(false))
    }

    /// Runs several reads, all at one revision.
    pub(crate) async fn read(&self, reads: Vec<Op>) -> Answer<TxnResult> {
        self.txn(Txn::always(reads)).await.map_err(as_read)
    }

    /// Reads one key, which costs less than a transaction of one operation. It sees every write that
    /// was confirmed before.
    pub(crate) async fn get(&self, key: &[u8]) -> Answer<Found> {
        let request = || {
            let mut kv = self.kv.clone();
            async move { kv.get(key, None).await }
        };
        let before = self.incarnations.known();
        let answer = self.send(RequestKind::Read, request).await.map_err(as_read)?;
        self.answered(before, answer.header());
        Ok(found(&answer))
    }

    /// Reads one range, which costs less than a transaction of one operation. Answers its revision
    /// too.
    pub(crate) async fn range(&self, range: Range) -> Answer<(Found, u64)> {
        let (prefix, options) = range_request(range);
        let request = || {
            let (mut kv, prefix, options) = (self.kv.clone(), prefix.clone(), options.clone());
            async move { kv.get(prefix, Some(options)).await }
        };
        let before = self.incarnations.known();
        let answer = self.send(RequestKind::Read, request).await.map_err(as_read)?;
        self.answered(before, answer.header());
        Ok((found(&answer), answer.header().map_or(0, |header| unsigned(header.revision()))))
    }

    /// Reads at most `limit` keys with a prefix that are after `last`, as they were at revision
    /// `at`, in the server's order; with their values and leases, unless the `names` are enough.
    pub(crate) async fn page(
        &self,
        prefix: &str,
        last: &[u8],
        at: u64,
        limit: i64,
        names: bool,
    ) -> Answer<Found> {
        let start = [last, b"\0"].concat();
        if names {
            return self.names(start, end_of(prefix), at, limit).await;
        }
        self.keys(start, GetOptions::new().with_range(end_of(prefix)), at, limit).await
    }

    /// Reads at most `limit` keys from `start` to before `end`, without their values, as they were at
    /// revision `at` (zero: now), in the server's order.
    pub(crate) async fn names(&self, start: Vec<u8>, end: Vec<u8>, at: u64, limit: i64) -> Answer<Found> {
        self.keys(start, GetOptions::new().with_range(end).with_keys_only(), at, limit).await
    }

    async fn keys(&self, start: Vec<u8>, options: GetOptions, at: u64, limit: i64) -> Answer<Found> {
        let options = options.with_revision(signed(at)).with_limit(limit);
        let request = || {
            let (mut kv, start, options) = (self.kv.clone(), start.clone(), options.clone());
            async move { kv.get(start, Some(options)).await }
        };
        let before = self.incarnations.known();
        let answer = self.send(RequestKind::Read, request).await.map_err(as_read)?;
        self.answered(before, answer.header());
        Ok(found(&answer))
    }
}
