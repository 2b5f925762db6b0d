use latchwork_core::backend::NodeId;
use latchwork_core::{Address, Error, Kind, Result};

use super::node_data::DataLayout;

const LIMITS: &str = "limits";
pub(crate) const RELEASED: &str = "released";
const CLIENTS: &str = "client";
/// The server keeps its quotas and configuration there.
pub(crate) const SERVERS_OWN: &str = "zookeeper";
const EXACT_LIMIT: &str = ":latchwork-limit";
const EXACT_CELL: &str = ":latchwork-";
const CELL: &str = "cell";

#[derive(Clone, Debug)]
pub(crate) struct QueuePaths {
    pub(crate) directory: String,
    pub(crate) kind: Kind,
    pub(crate) data: DataLayout,
    pub(crate) limit: Option<String>,
}

impl QueuePaths {
    /// # Errors
    /// `InvalidArgument` naming `key`, if an exact address is not a path.
    pub(crate) fn of(queue: &Address) -> Result<Self> {
        let limit = (queue.kind() == Kind::Semaphore).then(|| limit_path(queue));
        // As Curator's `LeaderLatch`.
        let is_bare = queue.is_exact() && queue.kind() == Kind::Election;
        let data = if is_bare { DataLayout::Bare } else { DataLayout::Ours };
        Ok(Self { directory: directory(queue)?, kind: queue.kind(), data, limit })
    }

    pub(crate) fn node(&self, name: &str) -> String {
        in_directory(&self.directory, name)
    }
}

fn directory(queue: &Address) -> Result<String> {
    let coded = queue.coded();
    if let Some(namespace) = queue.namespace() {
        return Ok(in_directory(&kind_directory(namespace, queue.kind()), coded));
    }
    check_exact(coded)?;
    Ok(coded.to_owned())
}

fn check_exact(path: &str) -> Result<()> {
    check_path("key", path)?;
    let of_cell = |segment: &str| {
        let kind = segment.rsplit_once(EXACT_CELL).map(|(_, kind)| kind);
        Kind::CELLS.iter().any(|reserved| kind == Some(reserved.as_str()))
    };
    let (what, end) = match path.split('/').find(|segment| segment.ends_with(EXACT_LIMIT) || of_cell(segment))
    {
        None => return Ok(()),
        Some(name) if name.ends_with(EXACT_LIMIT) => ("the stored limit of a semaphore", EXACT_LIMIT),
        Some(name) => ("a cell", name.rfind(EXACT_CELL).map_or(name, |at| &name[at..])),
    };
    Err(Error::invalid("key", format!("a name that ends with {end} is reserved for {what}")))
}

#[derive(Clone, Debug)]
pub(crate) struct CellPaths {
    /// A plain node, whose data version counts the creations of cells in it.
    pub(crate) directory: String,
    pub(crate) cell: String,
}

impl CellPaths {
    /// Cells with a key share the directory of their kind. At an exact address, a cell has a directory of its
    /// own next to the path, which may be a queue.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`, if an exact address is not a path, or the kind has no cells.
    pub(crate) fn of(cell: &Address) -> Result<Self> {
        let kind = cell.kind();
        if !Kind::CELLS.contains(&kind) {
            return Err(Error::invalid(
                "key",
                format!("the {} {cell} is a queue: it has no value", kind.as_str()),
            ));
        }
        let (directory, name) = match cell.namespace() {
            Some(namespace) => (kind_directory(namespace, kind), cell.coded()),
            None => {
                check_exact(cell.coded())?;
                (format!("{}{EXACT_CELL}{}", cell.coded(), kind.as_str()), CELL)
            }
        };
        Ok(Self { cell: in_directory(&directory, name), directory })
    }
}

pub(crate) fn kind_directory(namespace: &str, kind: Kind) -> String {
    format!("/{namespace}/{}", kind.as_str())
}

pub(crate) fn cell_directories(namespace: &str) -> impl Iterator<Item = String> {
    Kind::CELLS.into_iter().map(move |kind| kind_directory(namespace, kind))
}

pub(crate) fn limits_directory(namespace: &str) -> String {
    format!("/{namespace}/{LIMITS}")
}

fn limit_path(queue: &Address) -> String {
    match queue.namespace() {
        Some(namespace) => in_directory(&limits_directory(namespace), queue.coded()),
        // Curator's semaphores would count it inside the directory.
        None => format!("{}{EXACT_LIMIT}", queue.coded()),
    }
}

/// Created at connect. Others are created with their first queue or cell, so that a namespace that an
/// administrator created for an earlier version still works.
pub(crate) fn directories(namespace: &str) -> Vec<String> {
    let kinds = [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Election].map(Kind::as_str);
    let names = kinds.into_iter().chain([LIMITS, RELEASED, CLIENTS]);
    names.map(|name| format!("/{namespace}/{name}")).collect()
}

pub(crate) fn member_path(namespace: &str) -> String {
    format!("/{namespace}/{CLIENTS}/{}", NodeId::random().hyphenated())
}

pub(crate) fn released_path(namespace: &str, name: &str) -> String {
    format!("/{namespace}/{RELEASED}/{name}")
}

pub(crate) fn in_directory(directory: &str, name: &str) -> String {
    format!("{directory}/{name}")
}

pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

pub(crate) fn check_path(argument: &'static str, path: &str) -> Result<()> {
    let refuse =
        |why: &str| Err(Error::invalid(argument, format!("{path:?} is not a ZooKeeper path: {why}")));
    let Some(rest) = path.strip_prefix('/') else {
        return refuse("it must begin with /");
    };
    if rest.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return refuse("a segment is empty, . or ..");
    }
    if rest.split('/').next() == Some(SERVERS_OWN) {
        return refuse("/zookeeper is reserved for the server");
    }
    // The server checks UTF-16 units, and refuses surrogates.
    let refused = |c: char| c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    if path.chars().any(refused) {
        return refuse("it has a control character, a private-use character or a character above U+FFEF");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use latchwork_core::Key;

    use super::*;

    #[test]
    fn a_key_is_coded_into_its_queues_directory() {
        let address = Address::new("my ns", Kind::Mutex, "a/b").unwrap();
        assert_eq!(QueuePaths::of(&address).unwrap().directory, "/my%20ns/mutex/a%2Fb");
    }

    #[test]
    fn an_exact_address_is_a_path() {
        let exact = |path: &str| {
            let address = Address::new("n", Kind::Mutex, Key::exact(path)).unwrap();
            QueuePaths::of(&address).map(|paths| paths.directory)
        };
        assert_eq!(exact("/app/locks/a").unwrap(), "/app/locks/a");
        assert_eq!(exact("/a-limit").unwrap(), "/a-limit");
        for bad in ["/a:latchwork-limit", "/a:latchwork-limit/b"] {
            assert_eq!(exact(bad).unwrap_err().argument(), Some("key"), "{bad:?}");
        }
        for bad in ["/a:latchwork-value", "/a:latchwork-ids/b"] {
            let error = exact(bad).unwrap_err().to_string();
            assert!(error.contains("reserved for a cell"), "{error}");
        }
        assert_eq!(exact("/a:latchwork-values").unwrap(), "/a:latchwork-values");
        for bad in ["app", "/", "/a/", "/a//b", "/a/../b", "/zookeeper/quota", "/a\u{7}"] {
            assert_eq!(exact(bad).unwrap_err().argument(), Some("key"), "{bad:?}");
        }
    }

    #[test]
    fn cells_and_queues_have_distinct_paths() {
        let mut places = std::collections::HashSet::new();
        for name in ["a", "cell", "a/b", "b:latchwork-value"] {
            for name in [Key::from(name), Key::exact(format!("/n/value/x{}", name.len()))] {
                for kind in Kind::CELLS {
                    let address = Address::new("n", kind, name.clone()).unwrap();
                    let CellPaths { directory, cell } = CellPaths::of(&address).unwrap();
                    assert!(cell.starts_with(&format!("{directory}/")), "{cell}");
                    assert!(places.insert(cell.clone()), "{cell}");
                }
                let queue = Address::new("n", Kind::Mutex, name.clone()).unwrap();
                assert_eq!(CellPaths::of(&queue).unwrap_err().argument(), Some("key"));
                assert!(places.insert(QueuePaths::of(&queue).unwrap().directory), "{queue:?}");
            }
        }
    }
}
