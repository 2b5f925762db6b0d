use latchwork_core::{Address, encode};

use super::EXACT;

/// The key has no slash at its end or in its last part, and no queue has its kind: it is in no queue, and no
/// other cell is below it.
pub(crate) fn cell_key(cell: &Address) -> String {
    let kind = cell.kind().as_str();
    match cell.namespace() {
        Some(namespace) => format!("{namespace}/{kind}/{}", cell.coded()),
        None => format!("{EXACT}/{kind}/{}", encode(cell.coded())),
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::{Key, Kind};

    use super::super::Layout;
    use super::*;

    fn address(kind: Kind, name: impl Into<Key>) -> Address {
        Address::new("latch/work", kind, name).unwrap()
    }

    #[test]
    fn cell_key_starts_with_namespace_or_exact_prefix() {
        assert_eq!(cell_key(&address(Kind::Value, "a/b")), "latch%2Fwork/value/a%2Fb");
        assert_eq!(cell_key(&address(Kind::Latch, "a")), "latch%2Fwork/latch/a");
        assert_eq!(cell_key(&address(Kind::Ids, Key::exact("/a"))), "latchwork:exact/ids/%2Fa");
    }

    #[test]
    fn no_cell_is_in_a_queue_or_has_the_key_of_a_limit_or_another_cell() {
        let layout = Layout::new("latch/work");
        let names = ["a", "a/", "/a", "a/b", "limit", "client", "mutex/a", "latchwork:exact", "{a}", "\u{0}"];
        let mut cells = std::collections::HashSet::new();
        for cell in names.iter().flat_map(|name| Kind::CELLS.map(|kind| address(kind, *name))) {
            let key = cell_key(&cell);
            assert!(cells.insert(key.clone()), "{key} twice");
            for own in ["client", "data", "limit"] {
                assert!(!key.starts_with(&format!("{}{own}/", layout.root())), "{key}");
            }
            for queue in names.iter().flat_map(|name| Kind::QUEUES.map(|kind| address(kind, *name))) {
                let queue = layout.queue(&queue).unwrap();
                assert!(!key.starts_with(&queue.prefix) && key != queue.limit, "{key} and {queue:?}");
            }
        }
    }

    #[test]
    fn no_exact_lock_of_the_namespace_holds_its_cells() {
        for kind in Kind::CELLS {
            let exact = Key::exact(format!("latch%2Fwork/{}", kind.as_str()));
            let error = Layout::new("latch/work").queue(&address(Kind::Mutex, exact)).unwrap_err();
            assert_eq!(error.argument(), Some("key"), "{kind:?}");
        }
    }
}
