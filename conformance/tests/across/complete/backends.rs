use std::fs;

use super::places::{Place, assert_all_missing, assert_filled_in, place, read, root};

struct Backend {
    folder: String,
    name: String,
}

fn backends() -> Vec<Backend> {
    let mut backends = Vec::new();
    for entry in fs::read_dir(root()).expect("the repository's folder") {
        let folder = entry.expect("read").file_name().into_string().expect("a name");
        if folder.starts_with("backend-") {
            let manifest = read(&format!("{folder}/Cargo.toml"));
            let package = manifest.lines().find_map(|line| line.strip_prefix("name = \"latchwork-"));
            let name = package.and_then(|rest| rest.strip_suffix('"')).expect("latchwork-… is its package");
            backends.push(Backend { name: name.to_owned(), folder });
        }
    }
    backends.sort_by(|one, other| one.name.cmp(&other.name));
    backends
}

/// Only the build without etcd needs no protoc.
const WITHOUT_PROTOC: &str = "etcd";

fn places(backend: &Backend, others: &[Backend]) -> Vec<Place> {
    let Backend { folder, name } = backend;
    let quoted = format!("\"{name}\"");
    let connector = format!("latchwork_{name}::connector()");
    let mut places = vec![
        place("Cargo.toml", "members = [", "]", format!("\"{folder}\"")),
        place("Cargo.toml", "[features]", "[dependencies]", format!("\n{name} = [\"dep:latchwork-{name}\"]")),
        place("Cargo.toml", "\nfull = [", "]", &quoted),
        place("Cargo.toml", "\n[dependencies]", "[dev-dependencies]", format!("\nlatchwork-{name} = ")),
        place("src/lib.rs", "pub fn connectors()", "\n}", &connector),
        place("core/src/config/check.rs", "const OURS", "];", &quoted),
        place("conformance/Cargo.toml", "[features]", "\n[", format!("\n{name} = [\"dep:latchwork-{name}\"")),
        place(
            "conformance/bench/Cargo.toml",
            "[features]",
            "\n[",
            format!("\n{name} = [\"dep:latchwork-{name}\""),
        ),
        place("conformance/src/testbeds/mod.rs", "", "", format!("{name}_testbed")),
        place("conformance/src/cli/backends.rs", "fn connectors()", "\n}", &connector),
        place(
            "conformance/src/cli/backends.rs",
            "fn testbed_on(",
            "\n}",
            format!("testbeds::{name}_testbed("),
        ),
        place("conformance/servers/src/kind.rs", "fn name(self)", "\n    }", &quoted),
        place("test", "\n  --backend NAME", "\n", format!(" {name}")),
        place("test", "--backend)", "backends+=", format!(" {name}")),
        place("test", "|| backends=(", ")", format!(" {name}")),
        place("test", "for kind in", ";", format!(" {name}")),
        place("test", "", "", format!("--exclude latchwork-{name}")),
        place("test", "for name in memory", ";", format!(" {name}")),
        place(".ci/lib.sh", "have_program() {", "\n}", format!("    {name})")),
        place(".ci/lib.sh", "packages_of() {", "\n}", format!("    {name})")),
        place(".ci/run", "for features in", ";", name),
        place(".ci/run", "packages=(", ")", format!(" {folder}")),
        place(".ci/run", "", "", format!("\n  absent {name} ")),
        place("src/guide/connecting.md", "# Cargo features", "\n# ", format!("\n| `{name}` |")),
    ];
    if name != WITHOUT_PROTOC {
        places.push(place("test", "features=(", ")\n", format!("latchwork/{name}")));
    }
    for other in others.iter().filter(|other| other.name != *name) {
        let absent = format!("\n  absent {} ", other.name);
        places.push(place(".ci/run", &absent, "\n", format!("latchwork-{name}")));
    }
    for table in ["README.md", "src/guide/choosing.md"] {
        places.extend(columns(table, backend, others));
    }
    places
}

fn columns(file: &str, backend: &Backend, others: &[Backend]) -> Vec<Place> {
    let text = read(file);
    let names = |line: &str, name: &str| line.split('|').any(|cell| cell.trim().eq_ignore_ascii_case(name));
    let heads = text.lines().filter(|line| {
        line.starts_with('|')
            && others.iter().filter(|other| other.name != backend.name).all(|other| names(line, &other.name))
    });
    let columns: Vec<_> = heads
        .map(|head| {
            let cell = head.split('|').find(|cell| cell.trim().eq_ignore_ascii_case(&backend.name));
            let (from, _) = head.split_once(" memory |").unwrap_or_else(|| panic!("{file}: {head}"));
            place(
                file,
                &format!("\n{from} memory |"),
                "\n",
                cell.map_or(format!(" {} ", backend.name), str::to_owned),
            )
        })
        .collect();
    assert!(!columns.is_empty(), "{file}: no table with a column for each backend");
    columns
}

#[test]
fn every_backend_is_in_all_places_of_a_backend() {
    let backends = backends();
    assert!(backends.len() >= 3, "the test does not find the folders of the backends");
    for backend in &backends {
        assert_filled_in(&places(backend, &backends));
    }
}

#[test]
fn a_backend_that_is_only_a_crate_is_missed_in_all_places() {
    let consul = Backend { folder: "backend-consul".to_owned(), name: "consul".to_owned() };
    let places = places(&consul, &backends());
    assert_all_missing(&places);
    let said: Vec<_> = places.iter().map(Place::to_string).collect();
    for file in ["src/lib.rs", "test", ".ci/lib.sh", ".ci/run", "README.md", "src/guide/choosing.md"] {
        let line = said.iter().find(|line| line.starts_with(&format!("{file}: "))).expect(file);
        assert!(line.contains("consul"), "{line}");
    }
}
