//! A namespace that is retired or moves.

use latchwork::Config;
use latchwork::operator::GateMarker;

use super::finding::Finding;

/// The mark of the namespace. It keeps out every client except operators.
pub(super) fn of(config: &Config, marker: &GateMarker) -> Finding {
    let next = match marker.name {
        None => "give that URL to the services, or remove the mark with `Operator::reopen`",
        Some(_) => "let the service take part in the move, or give it that URL after the move",
    };
    Finding::fault("namespace", format!("{:?}: {marker}", config.namespace)).next(next)
}
