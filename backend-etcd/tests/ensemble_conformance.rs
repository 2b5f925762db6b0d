//! The suite against this backend on a cluster of three servers: whole in the long tier, or when it is
//! asked for.

use std::process::ExitCode;
use std::sync::Arc;

use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::etcd_cluster_testbed;

fn main() -> ExitCode {
    latchwork_conformance::main_on("ensemble", latchwork_etcd::connector(), async || {
        let cluster = Ensemble::etcd(3).await?;
        Ok(etcd_cluster_testbed(Arc::new(cluster))?)
    })
}
