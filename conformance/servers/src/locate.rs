use std::env;
use std::path::{Path, PathBuf};

use crate::{Kind, ServerError};

/// Names a folder of unpacked packages.
const ROOT_VARIABLE: &str = "LATCHWORK_SERVER_DIR";

/// Jars that ZooKeeper needs, in the layout of Debian's packages (`*` ends a prefix). The whole folder would
/// mix logging bindings.
const JARS: [&str; 14] = [
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    "commons-cli",
    "commons-io",
    "findbugs-annotations",
    "guava",
    "jline",
    "jackson-*",
    "netty-*",
    "jetty9-*",
];

#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) command: PathBuf,
    pub(super) class_path: Option<String>,
    /// Folders outside of the system's.
    pub(super) libraries: Vec<PathBuf>,
}

pub(super) fn locate(kind: Kind) -> Result<Program, ServerError> {
    let root = env::var_os(ROOT_VARIABLE).filter(|root| !root.is_empty()).map(PathBuf::from);
    let root = root.as_deref();
    let not_found = |tried: &str| ServerError::NotFound { kind, tried: tried.to_owned() };
    match kind {
        Kind::Redis => command(&["redis-server", "valkey-server"], root)
            .ok_or_else(|| not_found("the program redis-server or valkey-server is missing")),
        Kind::Etcd => command(&["etcd"], root).ok_or_else(|| not_found("the program etcd is missing")),
        Kind::Zookeeper => {
            let class_path = class_path(root).ok_or_else(|| {
                not_found("no zookeeper.jar in share/java, no ZOOKEEPER_HOME and no zkServer.sh on the path")
            })?;
            let java =
                java(root).ok_or_else(|| not_found("ZooKeeper exists, but the program java is missing"))?;
            Ok(Program { class_path: Some(class_path), ..java })
        }
    }
}

fn command(names: &[&str], root: Option<&Path>) -> Option<Program> {
    let unpacked = |root: &Path| {
        let command = names.iter().map(|name| root.join("usr/bin").join(name)).find(|path| path.is_file())?;
        Some(Program { command, class_path: None, libraries: libraries(root) })
    };
    let installed = || {
        let command = names.iter().find_map(|name| on_path(name))?;
        Some(Program { command, class_path: None, libraries: Vec::new() })
    };
    root.and_then(unpacked).or_else(installed)
}

fn on_path(name: &str) -> Option<PathBuf> {
    // A user's path may lack the system folders.
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/bin", "/usr/bin", "/usr/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// `lib`, `usr/lib`, and the folders of each architecture in them.
fn libraries(root: &Path) -> Vec<PathBuf> {
    let bases = [root.join("usr/lib"), root.join("lib")];
    let below = bases.iter().flat_map(|base| entries(base)).filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains("-linux-gnu")) && path.is_dir()
    });
    below.chain(bases.iter().filter(|base| base.is_dir()).cloned()).collect()
}

fn java(root: Option<&Path>) -> Option<Program> {
    let installed =
        env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java")).filter(|java| java.is_file());
    if let Some(command) = installed.or_else(|| on_path("java")) {
        return Some(Program { command, class_path: None, libraries: Vec::new() });
    }
    let root = root?;
    let command =
        entries(&root.join("usr/lib/jvm")).map(|home| home.join("bin/java")).find(|java| java.is_file())?;
    Some(Program { command, class_path: None, libraries: libraries(root) })
}

fn class_path(root: Option<&Path>) -> Option<String> {
    let debian = root.into_iter().chain([Path::new("/")]).map(|root| root.join("usr/share/java"));
    debian
        .filter(|folder| folder.join("zookeeper.jar").is_file())
        .find_map(|folder| debian_jars(&folder))
        .or_else(distribution)
}

fn debian_jars(folder: &Path) -> Option<String> {
    let wanted = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let jar = path.extension().is_some_and(|extension| extension == "jar");
        // Debian has each jar with a plain name and with a version.
        let plain = !stem.contains('.') && !stem.rsplit('-').next().is_some_and(numeric);
        jar && plain
            && JARS.iter().any(|name| match name.strip_suffix('*') {
                Some(beginning) => stem.starts_with(beginning),
                None => stem == *name,
            })
    };
    joined(entries(folder).filter(wanted))
}

fn numeric(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// ZooKeeper as its project distributes it.
fn distribution() -> Option<String> {
    let named = env::var_os("ZOOKEEPER_HOME").map(PathBuf::from);
    let found = ["zkServer.sh", "zkServer"].iter().find_map(|name| on_path(name)).and_then(|script| {
        let script = script.canonicalize().ok()?;
        Some(script.parent()?.parent()?.to_owned())
    });
    named.into_iter().chain(found).find_map(|home| {
        let jars = entries(&home.join("lib"))
            .chain(entries(&home))
            .filter(|path| path.extension().is_some_and(|extension| extension == "jar"));
        let jars: Vec<_> = jars.collect();
        let zookeeper = jars.iter().any(|jar| jar.to_string_lossy().contains("zookeeper"));
        if zookeeper { joined(jars.into_iter().chain([home.join("conf")])) } else { None }
    })
}

fn joined(paths: impl Iterator<Item = PathBuf>) -> Option<String> {
    env::join_paths(paths).ok()?.into_string().ok().filter(|joined| !joined.is_empty())
}

/// Sorted by name. Empty if the folder cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.into_iter()
}
