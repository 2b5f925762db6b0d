//! A namespace that is retired, or moves.

use latchwork::Config;
use latchwork::operator::GateMarker;

use super::finding::Finding;

/// What is marked on it, which keeps every client out but operators.
pub(super) fn of(config: &Config, marker: &GateMarker) -> Finding {
    let next = match marker.name {
        None => "give the services that URL; or take the mark back, with Operator::reopen",
        Some(_) => "let the service take part in the move, or give it that URL once the move has ended",
    };
    Finding::fault("namespace", format!("{:?}: {marker}", config.namespace)).next(next)
}
