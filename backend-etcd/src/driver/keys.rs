use etcd_client::{
    DeleteOptions, DeleteResponse, GetOptions, GetResponse, KvClient, ResponseHeader, TxnOpResponse,
};

use super::connection::Driver;
use super::encode::{found, range_request, read_request, signed, txn_request, unsigned};
use super::request_kind::RequestKind;
use super::txn::{Found, Op, Range, Txn, TxnResult};
use crate::error::{Answer, Failure, as_harmless};

impl Driver {
    pub(crate) async fn txn(&self, txn: Txn) -> Answer<TxnResult> {
        let txn = txn_request(txn);
        let before = self.incarnations.known();
        let request = || {
            let (mut kv, txn) = (self.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        };
        let answer = self.send(RequestKind::TRANSACTION, request).await?;
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
            revision: revision(answer.header()),
            reads,
            deleted: deleted.unwrap_or(false),
        })
    }

    /// Deletes a key of any create revision. Returns whether it existed.
    pub(crate) async fn delete(&self, key: &[u8]) -> Answer<bool> {
        Ok(self.deleted(key, None).await? > 0)
    }

    pub(crate) async fn delete_below(&self, prefix: &str) -> Answer<u64> {
        self.deleted(prefix.as_bytes(), Some(DeleteOptions::new().with_prefix())).await
    }

    async fn deleted(&self, key: &[u8], options: Option<DeleteOptions>) -> Answer<u64> {
        let answer = self.ask(RequestKind::DELETION, DeleteResponse::header, |mut kv| {
            let options = options.clone();
            async move { kv.delete(key, options).await }
        });
        Ok(unsigned(answer.await?.deleted()))
    }

    /// Deletes keys one by one, because a full server may refuse even a transaction of deletions. Returns
    /// whether the first existed.
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

    /// All reads are at one revision.
    pub(crate) async fn read(&self, reads: Vec<Op>) -> Answer<TxnResult> {
        match self.txn(Txn::always(reads.clone())).await {
            // Full servers before 3.5 refuse every transaction, but no single read.
            Err(Failure::Full(_)) => self.read_each(reads).await,
            answer => answer.map_err(as_harmless),
        }
    }

    async fn read_each(&self, reads: Vec<Op>) -> Answer<TxnResult> {
        let mut result = TxnResult { succeeded: true, revision: 0, reads: Vec::new(), deleted: false };
        for (start, options) in reads.into_iter().filter_map(|read| read_request(read).ok()) {
            // The first read finds the current revision, since zero means that.
            let answer = self.find(&start, options.with_revision(signed(result.revision))).await?;
            result.revision = match result.revision {
                0 => revision(answer.header()),
                revision => revision,
            };
            result.reads.push(found(&answer));
        }
        Ok(result)
    }

    /// Costs less than a transaction of one operation. The read shows every write that was confirmed before.
    pub(crate) async fn get(&self, key: &[u8]) -> Answer<Found> {
        Ok(found(&self.find(key, GetOptions::new()).await?))
    }

    /// Costs less than a transaction of one operation. Returns also its revision.
    pub(crate) async fn range(&self, range: Range) -> Answer<(Found, u64)> {
        let (prefix, options) = range_request(range);
        let answer = self.find(prefix.as_bytes(), options).await?;
        Ok((found(&answer), revision(answer.header())))
    }

    /// Reads at most `limit` keys from `start` to before `end`, at revision `at` (zero: the current one).
    /// With `names`, without values and leases.
    pub(crate) async fn page(
        &self,
        start: &[u8],
        end: Vec<u8>,
        at: u64,
        limit: i64,
        names: bool,
    ) -> Answer<Found> {
        let options = GetOptions::new().with_range(end).with_revision(signed(at)).with_limit(limit);
        let options = if names { options.with_keys_only() } else { options };
        Ok(found(&self.find(start, options).await?))
    }

    async fn find(&self, start: &[u8], options: GetOptions) -> Answer<GetResponse> {
        let answer = self.ask(RequestKind::READ, GetResponse::header, |mut kv| {
            let options = options.clone();
            async move { kv.get(start, Some(options)).await }
        });
        answer.await.map_err(as_harmless)
    }

    /// Sends a request, and records what the answer shows about the server's incarnation.
    pub(super) async fn ask<T, F>(
        &self,
        kind: RequestKind,
        header: fn(&T) -> Option<&ResponseHeader>,
        request: impl Fn(KvClient) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let before = self.incarnations.known();
        let answer = self.send(kind, || request(self.kv.clone())).await?;
        self.answered(before, header(&answer));
        Ok(answer)
    }
}

/// Returns the revision at which a request was answered.
fn revision(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| unsigned(header.revision()))
}
