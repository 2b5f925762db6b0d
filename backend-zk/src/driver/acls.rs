//! Access control lists, as the server has them.

use zookeeper_client::{Acl, Permission};

use super::Driver;
use super::request::RequestKind;
use crate::error::{Answer, Fault};

/// The rights of one identity on the children of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// `scheme:id`.
    pub(crate) identity: String,
    /// Make them.
    pub(crate) create: bool,
    /// Delete them.
    pub(crate) delete: bool,
    /// Write this list, and so grant itself either.
    pub(crate) admin: bool,
}

impl From<Acl> for Grant {
    fn from(acl: Acl) -> Self {
        let may = |permission| acl.permission().has(permission);
        Self {
            identity: format!("{}:{}", acl.scheme(), acl.id()),
            create: may(Permission::CREATE),
            delete: may(Permission::DELETE),
            admin: may(Permission::ADMIN),
        }
    }
}

impl Driver {
    /// The lists of these nodes, in one trip. `None` for a node that is not there, or whose list
    /// may not be read.
    pub(crate) async fn grants(&self, paths: &[String]) -> Answer<Vec<Option<Vec<Grant>>>> {
        self.request(RequestKind::Acl, |client| async move {
            let reads: Vec<_> = paths.iter().map(|path| client.get_acl(path)).collect();
            let mut found = Vec::with_capacity(reads.len());
            for read in reads {
                found.push(match read.await {
                    Ok((acls, _)) => Some(acls.into_iter().map(Grant::from).collect()),
                    Err(error) => match Fault::from(error.clone()) {
                        Fault::NoNode | Fault::Forbidden(_) => None,
                        _ => return Err(error),
                    },
                });
            }
            Ok(found)
        })
        .await
    }
}
