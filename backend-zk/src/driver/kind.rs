#[derive(Clone, Copy)]
pub(super) struct RequestKind {
    pub(super) label: &'static str,
    /// The request does not wait for the throttle.
    pub(super) is_first: bool,
}

const fn in_turn(label: &'static str) -> RequestKind {
    RequestKind { label, is_first: false }
}

pub(super) const ACL: RequestKind = in_turn("acl");
pub(super) const CREATE: RequestKind = in_turn("create");
pub(super) const CREATE_FIRST: RequestKind = RequestKind { is_first: true, ..CREATE };
pub(super) const DELETE: RequestKind = in_turn("delete");
pub(super) const LIST: RequestKind = in_turn("list");
pub(super) const MULTI: RequestKind = in_turn("multi");
pub(super) const READ: RequestKind = in_turn("read");
pub(super) const STAT: RequestKind = in_turn("stat");
pub(super) const CONTACT: RequestKind = RequestKind { is_first: true, ..STAT };
pub(super) const WATCH: RequestKind = in_turn("watch");
pub(super) const WRITE: RequestKind = in_turn("write");

pub(super) const LABELS: [&str; 9] = [
    ACL.label,
    CREATE.label,
    DELETE.label,
    LIST.label,
    MULTI.label,
    READ.label,
    STAT.label,
    WATCH.label,
    WRITE.label,
];
