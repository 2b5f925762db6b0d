use zookeeper_client::{Acl, Permission};

use super::request::answers;
use super::{Driver, kind};
use crate::error::{Answer, Fault};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) identity: String,
    pub(crate) create: bool,
    pub(crate) delete: bool,
    /// The right to change this list, and so to gain both.
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
    /// `None`: the node does not exist, or its list may not be read.
    pub(crate) async fn grants(&self, paths: &[String]) -> Answer<Vec<Option<Vec<Grant>>>> {
        self.request(kind::ACL, async |client| {
            answers(paths.iter().map(|path| client.get_acl(path)).collect(), |list| match list {
                Ok((acls, _)) => Ok(Some(acls.into_iter().map(Grant::from).collect())),
                Err(error) if matches!(Fault::from(error.clone()), Fault::NoNode | Fault::Forbidden(_)) => {
                    Ok(None)
                }
                Err(error) => Err(error),
            })
            .await
        })
        .await
    }
}
