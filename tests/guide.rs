//! The guide names only tests that exist, and lists every kind of error, reason of loss and capability.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names that belong to other programs.
const FOREIGN: [&str; 1] = ["extra_lock_patterns"];

fn page(name: &str) -> String {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide").join(name))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The words in backticks that could be names in Rust code, with at least two underscores.
fn names_in(text: &str) -> BTreeSet<String> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|word| {
        word.matches('_').count() >= 2 && word.chars().all(|char| char.is_ascii_lowercase() || char == '_')
    })
    .map(str::to_owned)
    .collect()
}

/// The functions and fields in all sources below a folder.
fn declared_in(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of this repository") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            declared_in(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for line in read(&path).lines() {
                let rest =
                    line.split_once("fn ").or_else(|| line.split_once("pub ")).map_or("", |(_, rest)| rest);
                into.insert(rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect());
            }
        }
    }
}

/// The variants of an enum in core's `error/kind.rs`.
fn variants(name: &str) -> Vec<String> {
    let source = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("core/src/error/kind.rs"));
    let body = source.split_once(&format!("pub enum {name} {{\n")).expect("the enum is there").1;
    let body = body.split_once("\n}").expect("it ends").0;
    let named = body.lines().filter_map(|line| line.strip_prefix("    "));
    named
        .filter(|line| line.starts_with(|char: char| char.is_ascii_uppercase()))
        .map(|line| line.chars().take_while(|char| char.is_alphanumeric()).collect())
        .collect()
}

#[test]
fn every_test_that_a_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut declared = BTreeSet::new();
    for folder in ["backend-etcd", "backend-redis", "backend-zk", "conformance", "core"] {
        for part in ["src", "tests"] {
            declared_in(&root.join(folder).join(part), &mut declared);
        }
    }
    let mut named = BTreeSet::new();
    for entry in fs::read_dir(root.join("src/guide")).expect("the guide") {
        let path = entry.expect("read").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        // Metrics have a separate test, conformance/tests/across/log.rs.
        named.extend(names_in(&read(&path)).into_iter().filter(|name| !name.starts_with("latchwork_")));
        // A page may name another page.
        declared.extend(path.file_stem().and_then(|stem| Some(stem.to_str()?.to_owned())));
    }
    declared.extend(FOREIGN.map(str::to_owned));
    assert!(named.contains("lease_deadline_loss_is_final"), "this test misreads the pages: {named:?}");
    let unknown: Vec<_> = named.difference(&declared).collect();
    assert!(unknown.is_empty(), "the guide names missing tests or fields: {unknown:?}");
}

/// The page contains the picture of the same folder.
#[test]
fn the_picture_of_failovers_is_in_its_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide");
    let picture = fs::read(folder.join("failover.png")).expect("the picture");
    assert!(
        page("failover.html").contains(&format!("base64,{}\"", base64(&picture))),
        "make failover.html again"
    );
    assert!(picture.len() < 200 << 10, "{} bytes", picture.len());
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for some in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, at| word << 8 | usize::from(some.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = char::from(LETTERS[word >> (18 - 6 * at) & 63]);
            text.push(if at <= some.len() { letter } else { '=' });
        }
    }
    text
}

#[test]
fn every_error_and_every_loss_has_its_row() {
    let page = page("errors.md");
    for (name, some) in [("ErrorKind", "Deadlock"), ("LostReason", "Revoked")] {
        let variants = variants(name);
        assert!(variants.iter().any(|variant| variant == some), "this test misreads core: {variants:?}");
        for variant in variants {
            let row = [format!("\n| `{variant}`"), format!("\n| `{variant} {{")];
            assert!(row.iter().any(|row| page.contains(row)), "{name}::{variant} has no row");
        }
    }
}

#[tokio::test]
async fn every_capability_has_its_row() {
    let coordinator = latchwork::connect("memory://").await.expect("connected");
    let capabilities = serde_json::to_value(coordinator.capabilities()).expect("JSON");
    let page = page("choosing.md");
    for name in capabilities.as_object().expect("fields").keys() {
        assert!(page.contains(&format!("\n| `{name}` |")), "{name} has no row");
    }
    coordinator.close().await.expect("closed");
}
