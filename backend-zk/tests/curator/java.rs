use std::path::{Path, PathBuf};

use tokio::process::Command;

const JARS: [&str; 10] = [
    "curator-recipes",
    "curator-framework",
    "curator-client",
    "guava",
    "slf4j-api",
    "slf4j-nop",
    "zookeeper",
    "zookeeper-jute",
    "snappy-java",
    "metrics-core",
];

const HELP: &str = "Curator is needed: install libcurator-recipes-java and default-jre-headless, or name a folder with \
                    such packages unpacked in LATCHWORK_SERVER_DIR";

fn class_path() -> String {
    let root = std::env::var_os("LATCHWORK_SERVER_DIR").map(PathBuf::from);
    let folders = root.into_iter().chain([PathBuf::from("/")]).map(|root| root.join("usr/share/java"));
    let folder = folders
        .into_iter()
        .find(|folder| folder.join("curator-recipes.jar").exists())
        .unwrap_or_else(|| panic!("{HELP}"));
    let jar = |name: &str| folder.join(format!("{name}.jar"));
    let netty = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("netty-") && name.ends_with(".jar")
    });
    let jars = JARS.iter().map(|name| jar(name)).filter(|path| path.exists()).chain(netty);
    std::env::join_paths(jars).unwrap().into_string().unwrap()
}

pub(crate) fn command(source: &str, arguments: &[&str]) -> Command {
    let java = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    let mut command = Command::new(java.filter(|java| java.exists()).unwrap_or_else(|| "java".into()));
    command
        .args(["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp"])
        .arg(class_path())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("curator").join(source))
        .args(arguments);
    command
}
