//! Faults that are planted in processes and in operators, as controls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_conformance::moves::{PLANT, Plants};
use latchwork_core::backend::{Backend, EntryPage, QueueEntry, VersionedValue};
use latchwork_core::{Address, Clock, Config, Connector, Kind, Result};

use defect::Defect;
use wrapper::Reach;

#[path = "../broken/defect.rs"]
#[expect(dead_code, reason = "the module belongs to the suite, whose broken backends use more of it")]
mod defect;
#[path = "../broken/wrapper.rs"]
#[expect(dead_code, reason = "the module belongs to the suite, whose broken backends use more of it")]
mod wrapper;

pub(crate) struct Plant {
    pub(crate) name: &'static str,
    /// Otherwise the fault is in the operator.
    in_processes: bool,
    /// Words of the verdict, one of which must occur.
    pub(crate) found_as: &'static [&'static str],
    /// Planted in the long tier only, because other faults check the same rules.
    pub(crate) long: bool,
}

pub(crate) const ALL: [&Plant; 3] = [
    &Plant { name: "acknowledgement_at_once", in_processes: true, found_as: &["held at once"], long: false },
    // A skipped process has a token of the other side, or holds at the same time as another process.
    &Plant {
        name: "step_without_members",
        in_processes: false,
        found_as: &["held at once", "out of order"],
        long: true,
    },
    &Plant { name: "epoch_that_is_not_read", in_processes: true, found_as: &["out of order"], long: false },
];

impl Plant {
    pub(crate) fn plants(&self) -> Plants {
        // Without a pause between the steps, a late process is more steps behind.
        let hurried = Plants { pause: Duration::ZERO, ..Plants::NONE };
        match self.in_processes {
            true => Plants { processes: Some(self.name), ..hurried },
            // The processes are late, which is not a fault: an operator must wait for them.
            false => Plants {
                processes: Some("late"),
                operator: |honest| broken(honest, || Arc::new(NoMembers)),
                ..hurried
            },
        }
    }
}

/// The connectors of a process, with its planted fault, if any.
pub(crate) fn planted(honest: Vec<Arc<dyn Connector>>) -> Vec<Arc<dyn Connector>> {
    match std::env::var(PLANT).as_deref() {
        Ok("acknowledgement_at_once") => broken(honest, || Arc::new(AtOnce::default())),
        Ok("epoch_that_is_not_read") => broken(honest, || Arc::new(NoEpoch)),
        Ok("late") => broken(honest, || Arc::new(Late)),
        Ok(other) => panic!("{PLANT}={other:?} names no fault of a process"),
        Err(_) => honest,
    }
}

/// Acknowledges each stage at once, and continues to use the first stage that it read.
#[derive(Debug, Default)]
struct AtOnce(Mutex<HashMap<Address, VersionedValue>>);

/// Finds no members, and so waits for none.
#[derive(Debug)]
struct NoMembers;

/// Gets each stage late.
#[derive(Debug)]
struct Late;

/// Longer than a step that waits for no member.
const LATE: Duration = Duration::from_millis(300);

/// Gives tokens without the epoch.
#[derive(Debug)]
struct NoEpoch;

/// Whether an address belongs to a move, and not to its clients or the layout.
fn is_of_the_move(address: &Address, kind: Kind) -> bool {
    address.kind() == kind && address.name().starts_with("move/")
}

#[async_trait]
impl Defect for AtOnce {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let read = honest.read_cell(cell).await?;
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(read.map(|read| match is_of_the_move(cell, Kind::Layout) {
            true => VersionedValue {
                value: first.entry(cell.clone()).or_insert_with(|| read.clone()).value.clone(),
                ..read
            },
            false => read,
        }))
    }
}

#[async_trait]
impl Defect for NoMembers {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        match is_of_the_move(queue, Kind::Clients) {
            true => Ok(Vec::new()),
            false => honest.list(queue, page).await,
        }
    }
}

#[async_trait]
impl Defect for Late {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let read = honest.read_cell(cell).await;
        if is_of_the_move(cell, Kind::Layout) {
            tokio::time::sleep(LATE).await;
        }
        read
    }
}

#[async_trait]
impl Defect for NoEpoch {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        let read = honest.read_cell(cell).await?;
        Ok(read.map(|read| {
            let text = String::from_utf8_lossy(&read.value);
            let fields =
                text.split('&').map(|field| if field.starts_with("epoch=") { "epoch=0" } else { field });
            match is_of_the_move(cell, Kind::Layout) {
                true => {
                    VersionedValue { value: fields.collect::<Vec<_>>().join("&").into_bytes().into(), ..read }
                }
                false => read,
            }
        }))
    }
}

fn broken(honest: Vec<Arc<dyn Connector>>, defect: fn() -> Arc<dyn Defect>) -> Vec<Arc<dyn Connector>> {
    let broken = |honest| Arc::new(Broken { honest, defect }) as Arc<dyn Connector>;
    honest.into_iter().map(broken).collect()
}

#[derive(Debug)]
struct Broken {
    honest: Arc<dyn Connector>,
    defect: fn() -> Arc<dyn Defect>,
}

#[async_trait]
impl Connector for Broken {
    fn name(&self) -> &'static str {
        self.honest.name()
    }

    fn validate(&self, config: &Config) -> Result<()> {
        self.honest.validate(config)
    }

    fn clock(&self, config: &Config) -> Clock {
        self.honest.clock(config)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let broken = wrapper::wrap((self.defect)(), Reach::Recipes);
        Ok(broken(self.honest.connect(config).await?))
    }
}
