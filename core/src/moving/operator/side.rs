use crate::ClientRecord;
use crate::address::Namespace;
use crate::config::Config;
use crate::contracts::Backend;
use crate::coordinator::Coordinator;
use crate::coordinator::operator::Operator;
use crate::decide::moving::Side;
use crate::decide::moving::gate::GateMarker;
use crate::error::{Error, ErrorKind, Result};
use crate::registry::{Place, Stamped, another, checked};

#[derive(Debug)]
pub(super) struct OperatorSide {
    pub(super) side: Side,
    pub(super) coordinator: Coordinator,
    pub(super) place: Place,
    pub(super) namespace: Namespace,
    /// Its URL, for clients of the other side.
    pub(super) url: String,
}

impl OperatorSide {
    pub(super) fn new(side: Side, coordinator: Coordinator, config: &Config) -> Result<Self> {
        Operator::of(&coordinator).map_err(on(side))?;
        let url = config.shared_url();
        checked(&url)?;
        let namespace = Namespace::new(&config.namespace);
        let place = Place::of(&namespace)?;
        Ok(Self { side, coordinator, place, namespace, url })
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        &**self.coordinator.backend()
    }

    pub(super) async fn stamped(&self) -> Result<Stamped> {
        Stamped::standing(self.backend(), &self.place).await.map_err(on(self.side))
    }

    /// Writes or removes a marker over the stamp that was read; `None` if another client has written since.
    pub(super) async fn mark(&self, read: &Stamped, marker: Option<&GateMarker>) -> Result<Option<Stamped>> {
        read.mark(self.backend(), &self.place, marker).await.map_err(on(self.side))
    }

    pub(super) async fn write(&self, changed: Stamped) -> Result<Option<Stamped>> {
        changed.changed(self.backend(), &self.place).await.map_err(on(self.side))
    }

    pub(super) fn marked_otherwise(&self, stands: Option<&GateMarker>) -> Error {
        on(self.side)(another(stands, &self.place))
    }

    pub(super) async fn clients(&self) -> Result<Vec<ClientRecord>> {
        self.coordinator.clients().all().await.map_err(on(self.side))
    }
}

pub(super) fn on(side: Side) -> impl Fn(Error) -> Error {
    move |error| match error.kind() {
        ErrorKind::Closed | ErrorKind::RuntimeGone => error,
        kind => {
            let why = format!("on the {} side of the move", side.as_str());
            Error::new(kind, why).because(error)
        }
    }
}
