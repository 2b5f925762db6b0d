//! The kinds of requests, as metrics name them.

pub(super) const ACL: &str = "acl";
pub(super) const CREATE: &str = "create";
pub(super) const DELETE: &str = "delete";
pub(super) const LIST: &str = "list";
pub(super) const MULTI: &str = "multi";
pub(super) const READ: &str = "read";
pub(super) const STAT: &str = "stat";
pub(super) const WATCH: &str = "watch";
pub(super) const WRITE: &str = "write";

pub(super) const ALL: [&str; 9] = [ACL, CREATE, DELETE, LIST, MULTI, READ, STAT, WATCH, WRITE];
