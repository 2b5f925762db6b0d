use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use latchwork_core::backend::{CellWrite, CellWritten};
use latchwork_core::{CellLife, Error, ErrorKind, Expected, Result};

use tokio::time::timeout;

use super::read::{found, version};
use crate::cell_lease::CellLease;
use crate::driver::{Compare, Driver, Op, Txn, TxnResult};
use crate::error::{Failure, SILENT};
use crate::queue::context::NodeContext;
use crate::queue::node::EtcdNode;

/// An ephemeral cell of a lost lease opens the next one (LEASE-REOPEN). An idle cell costs another request if
/// its lease needs renewal.
pub(crate) async fn write(context: &NodeContext, key: &str, write: &CellWrite) -> Result<CellWritten> {
    match life(write) {
        CellLife::Stays => {
            let answer = context.driver.txn(request(key, write, 0)).await;
            outcome(write, answer.map_err(Failure::of_write)?)
        }
        CellLife::Lease => {
            let sent = AtomicBool::new(false);
            in_time(&context.driver, &sent, put_on_lease(context, key, write, &sent)).await
        }
        CellLife::Idle(time) => {
            let put = put_idle(context, CellLease::of(key, time), |lease| request(key, write, lease));
            outcome(write, put.await?)
        }
    }
}

async fn put_idle(context: &NodeContext, on: CellLease, txn: impl Fn(i64) -> Txn) -> Result<TxnResult> {
    let sent = AtomicBool::new(false);
    in_time(&context.driver, &sent, context.cell_leases.put(on, txn, &sent)).await
}

/// `sent`: whether the transaction may have been carried out.
async fn in_time<T>(driver: &Driver, sent: &AtomicBool, write: impl Future<Output = Result<T>>) -> Result<T> {
    let begun = Instant::now();
    timeout(driver.request_timeout, write).await.unwrap_or_else(|_elapsed| {
        let sent = sent.load(Ordering::Acquire);
        let kind = if sent { ErrorKind::OutcomeUnknown } else { ErrorKind::Unavailable };
        Err(Error::new(kind, SILENT).tried("the write of a cell", driver.link.host(), begun.elapsed()))
    })
}

async fn put_on_lease(
    context: &NodeContext,
    key: &str,
    write: &CellWrite,
    sent: &AtomicBool,
) -> Result<CellWritten> {
    let session = context.leases.alive().await?;
    sent.store(true, Ordering::Release);
    let answer = context.driver.txn(request(key, write, session.id)).await;
    if let Err(Failure::LeaseGone) = answer {
        // An operator has revoked the lease, and the server has written nothing.
        sent.store(false, Ordering::Release);
        session.gone(&context.driver).await;
        let over = "the lease of this client was revoked: try again, the next write opens a new lease";
        return Err(Error::new(ErrorKind::Unavailable, over));
    }
    outcome(write, answer.map_err(Failure::of_write)?)
}

/// An ephemeral cell is put on the node's lease, which is the client's lease while the node exists.
pub(crate) async fn write_held(node: &EtcdNode, key: &str, write: &CellWrite) -> Result<CellWritten> {
    if node.context.leases.is_closed() {
        return Err(Error::closed());
    }
    node.check_lost()?;
    let held = |lease| {
        let mut txn = request(key, write, lease);
        txn.compares.push(node.own.exists());
        txn.or_else.push(Op::GetKey(node.own.key.to_vec()));
        txn
    };
    let result = match life(write) {
        CellLife::Idle(time) => put_idle(&node.context, CellLease::of(key, time), held).await?,
        life => {
            let lease = if life == CellLife::Lease { node.lease } else { 0 };
            match node.context.driver.txn(held(lease)).await {
                Err(Failure::LeaseGone) => return Err(node.lease_gone().await),
                answer => answer.map_err(Failure::of_write)?,
            }
        }
    };
    let stands = result.succeeded || result.reads.get(1).is_some_and(|read| node.own.is_in(read));
    if !stands {
        return Err(node.not_there().await);
    }
    outcome(write, result)
}

fn life(write: &CellWrite) -> CellLife {
    if write.value.is_some() { write.life } else { CellLife::Stays }
}

fn request(key: &str, write: &CellWrite, lease: i64) -> Txn {
    let key = || key.to_owned();
    let compares = match write.expected {
        Expected::Any => Vec::new(),
        Expected::Absent => vec![Compare::Absent(key())],
        Expected::Version(version) => vec![Compare::Modified(key(), version.condition())],
    };
    let change = match &write.value {
        Some(value) => Op::Put { key: key(), value: value.to_vec(), lease },
        None => Op::Delete(key().into()),
    };
    Txn { compares, then: vec![change], or_else: vec![Op::Get(key().into())] }
}

fn outcome(write: &CellWrite, mut result: TxnResult) -> Result<CellWritten> {
    if !result.succeeded {
        let now = if result.reads.is_empty() { None } else { found(result.reads.swap_remove(0))? };
        return Ok(CellWritten::Refused(now));
    }
    Ok(match write.value {
        Some(_) => CellWritten::Written(version(result.revision)),
        None => CellWritten::Deleted { was_there: result.deleted },
    })
}
