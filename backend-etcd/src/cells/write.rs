//! Writing a cell: one transaction each (see [the module above](super)).

use latchwork_core::contracts::{CellWrite, CellWritten, Expected};
use latchwork_core::{Error, ErrorKind, Result};

use super::read::{found, version};
use crate::driver::{Compare, Driver, Op, Txn, TxnResult};
use crate::error::Failure;
use crate::queue::node::EtcdNode;

/// Writes or deletes a cell: one request.
pub(crate) async fn write(driver: &Driver, key: &str, write: &CellWrite) -> Result<CellWritten> {
    outcome(write, send(driver, request(key, write)).await?)
}

/// Writes or deletes a cell while this node stands in its queue: one request, and another for the
/// reason when the node is gone.
pub(crate) async fn write_held(node: &EtcdNode, key: &str, write: &CellWrite) -> Result<CellWritten> {
    if node.context.leases.is_closed() {
        return Err(Error::closed());
    }
    node.check_lost()?;
    let mut txn = request(key, write);
    txn.compares.push(node.own.exists());
    txn.or_else.push(Op::GetKey(node.own.key.to_vec()));
    let result = send(&node.context.driver, txn).await?;
    let stands = result.succeeded || result.reads.get(1).is_some_and(|read| node.own.is_in(read));
    if !stands {
        return Err(node.not_there().await);
    }
    outcome(write, result)
}

fn request(key: &str, write: &CellWrite) -> Txn {
    let key = || key.to_owned();
    // A key that is not there has no lease either.
    let mut compares = vec![Compare::Unleased(key())];
    match write.expected {
        Expected::Any => {}
        Expected::Absent => compares.push(Compare::Absent(key())),
        Expected::Version(version) => compares.push(Compare::Modified(key(), version.condition())),
    }
    let change = match &write.value {
        Some(value) => Op::Put { key: key(), value: value.to_vec(), lease: 0 },
        None => Op::Delete(key().into()),
    };
    Txn { compares, then: vec![change], or_else: vec![Op::Get(key().into())] }
}

async fn send(driver: &Driver, txn: Txn) -> Result<TxnResult> {
    driver.txn(txn).await.map_err(|failure| match failure {
        Failure::Full(error) => {
            Error::new(ErrorKind::Unknown, "a full server may have stored it").because(error)
        }
        other => other.into(),
    })
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
