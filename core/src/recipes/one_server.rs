use crate::client::Client;
use crate::contracts::LeaseState;

/// Returns whether two clients use one server, as far as they can see now. A client without an answer of its server
/// shows nothing, and neither does a login that may not read the registry of the other's namespace: the client does
/// not ask again.
pub(super) async fn use_one_server(one: &Client, other: &Client) -> bool {
    let is_live = |client: &Client| client.is_connected() && client.lease().state() == LeaseState::Live;
    if one.id == other.id || one.backend.name() != other.backend.name() || one.apart.knows(other.id) {
        return false;
    }
    let Some(registration) = one.registrations.find().filter(|_| is_live(one) && is_live(other)) else {
        return false;
    };
    match other.serve(registration.is_on(&*other.backend)).await {
        Ok(true) => return true,
        Ok(false) => one.apart.note(other.id),
        Err(error) => {
            tracing::debug!(%error, "could not check whether two coordinators are one server");
            if !error.may_pass() {
                one.apart.note(other.id);
            }
        }
    }
    false
}
