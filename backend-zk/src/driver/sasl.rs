//! Logins by SASL.
//!
//! The server keeps users and passwords in its JAAS file. A right login gives a session the identity
//! `sasl:user`, which the lists of its nodes name.

use latchwork_core::Error;
use zookeeper_client::{Client, Connector, Error as DriverError};

use crate::error::{Answer, Fault};

/// The scheme of such an identity.
const SCHEME: &str = "sasl";

/// A connector whose sessions log in by DIGEST-MD5.
#[cfg(feature = "sasl")]
pub(super) fn logged_in(connector: Connector, user: String, password: String) -> Connector {
    connector.with_sasl(zookeeper_client::SaslOptions::digest_md5(user, password))
}

/// Settings of a build without SASL do not ask for it.
#[cfg(not(feature = "sasl"))]
pub(super) fn logged_in(connector: Connector, _: String, _: String) -> Connector {
    connector
}

/// Asks the server who this session is. One that knows no SASL answers a login as if it were well, and so
/// does one that lets clients in whose login failed.
pub(super) async fn check(client: &Client) -> Answer<()> {
    match client.list_auth_users().await {
        Ok(users) if users.iter().any(|user| user.scheme() == SCHEME) => Ok(()),
        Ok(_) => {
            let why = "the server accepted no login: its JAAS file has no section `Server`; or user or password are wrong, \
                and the server lets such clients in (zookeeper.allowSaslFailedClients)";
            Err(Fault::NoLogin(Error::forbidden("log in by SASL", why)))
        }
        // Before ZooKeeper 3.7 nobody can ask. Without an identity no node can be made.
        Err(DriverError::Unimplemented) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
