//! Logins by SASL. The server's JAAS file gives a session the identity `sasl:user`.

use latchwork_core::Error;
use zookeeper_client::{Client, Connector, Error as DriverError};

use crate::error::{Answer, Fault};

const SCHEME: &str = "sasl";

#[cfg(feature = "sasl")]
pub(super) fn logged_in(connector: Connector, user: String, password: String) -> Connector {
    connector.with_sasl(zookeeper_client::SaslOptions::digest_md5(user, password))
}

#[cfg(not(feature = "sasl"))]
pub(super) fn logged_in(connector: Connector, _: String, _: String) -> Connector {
    connector
}

/// Asks for the identity of this session: a server without SASL, or one that admits clients after a failed
/// login, answers every login as correct.
pub(super) async fn check(client: &Client) -> Answer<()> {
    match client.list_auth_users().await {
        Ok(users) if users.iter().any(|user| user.scheme() == SCHEME) => Ok(()),
        Ok(_) => {
            let why = "the server accepted no login: its JAAS file has no section `Server`; or user or password are wrong, \
                and the server lets such clients in (zookeeper.allowSaslFailedClients)";
            Err(Fault::NoLogin(Error::forbidden("log in by SASL", why)))
        }
        // Servers before 3.7 do not know the question. Without an identity, the session can create no node.
        Err(DriverError::Unimplemented) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
