//! Each public method of the recipes has a twin here, so that neither side can drift.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A method of a type.
type Method = (String, String);

/// What only async code has, each with the reason.
const WITHOUT_TWIN: [(&str, &str, &str); 4] = [
    ("Coordinator", "backend", "code below the recipes is async"),
    ("Coordinator", "new", "opened_by takes one that was made so"),
    ("QuorumLock", "trusting", "for tests that are to see two holders"),
    ("latchwork", "compiled_backends", "nothing to wait for"),
];

/// Values that both sides share: they have no method that waits.
const SHARED: [&str; 6] = ["Acquire", "GroupChanges", "GroupMember", "Leading", "Stored", "Run"];

/// Guards have what `Hold` has; here by one type.
const GUARD: &str = "Guard";

fn read(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The sources of a folder, put together.
fn read_all(folder: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.expect("read").path()).collect();
    paths.sort();
    let texts = paths.iter().filter(|path| path.is_file());
    texts.map(|path| fs::read_to_string(path).expect("UTF-8") + "\n").collect()
}

/// The type that a line begins the methods of, if it does: `impl X {`, `pub trait X: …`.
fn begins(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl").or_else(|| line.strip_prefix("pub trait"))?;
    let rest = rest.strip_prefix("<G: Hold>").or_else(|| rest.strip_prefix("<G: Fenced>")).unwrap_or(rest);
    let of_a_trait = rest.contains(" for ");
    let name: String = rest.trim_start().chars().take_while(|char| char.is_alphanumeric()).collect();
    (!of_a_trait && !name.is_empty()).then_some(name)
}

/// The name that a line declares as a public method; in a macro's list without `pub`.
fn declared(line: &str, listed: bool) -> Option<String> {
    let rest = line.strip_prefix("pub ").unwrap_or(if listed { line } else { "" });
    let rest = rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?;
    Some(rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect())
}

/// The names in one line of a verb's list: `acquire(weight: u32) -> Permit, by take;`.
fn verbs(line: &str) -> Vec<String> {
    match line.split_once('(') {
        Some((before, _)) => vec![before.rsplit(' ').next().unwrap_or(before).to_owned()],
        None => line.split([',', ';', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect(),
    }
}

/// The public methods that a source declares, by type.
fn methods(source: &str) -> BTreeSet<Method> {
    let mut found = BTreeSet::new();
    let (mut of, mut list) = (None::<String>, "");
    for full in source.lines() {
        let line = full.trim();
        if full == "}" {
            of = None;
        } else if let Some(name) = full.strip_prefix("impl IntoIterator for ") {
            found.insert((name.trim_end_matches(" {").to_owned(), "into_stream".to_owned()));
        } else if let Some(name) = begins(full) {
            of = Some(name);
        } else if line.starts_with("///") || line.starts_with('#') {
        } else if let Some(of) = &of {
            match line {
                "verb! {" | "makes! {" => list = line,
                "keyed!();" => found.extend(["key", "address"].map(|name| (of.clone(), name.to_owned()))),
                "fences!();" => found.extend([(of.clone(), "token".to_owned())]),
                "}" if full == "    }" => list = "",
                _ if line.starts_with("forward! {") => list = "forward! {",
                _ if list == "verb! {" => {
                    found.extend(verbs(line).into_iter().map(|name| (of.clone(), name)))
                }
                _ => found
                    .extend(declared(line, !list.is_empty() || of == "Hold").map(|name| (of.clone(), name))),
            }
        }
    }
    found
}

/// The functions that a source declares outside of types.
fn functions(source: &str) -> BTreeSet<Method> {
    let names = source.lines().filter_map(|line| declared(line, false));
    names.map(|name| ("latchwork".to_owned(), name)).collect()
}

/// What async code has.
fn asynchronous() -> BTreeSet<Method> {
    let exports = read("core/src/recipes/mod.rs");
    let exported: BTreeSet<_> = exports
        .lines()
        .filter_map(|line| line.strip_prefix("pub use ")?.split_once("::"))
        .flat_map(|(_, names)| names.trim_matches(['{', '}', ';']).split(", "))
        .filter(|name| !SHARED.contains(name))
        .chain(["Coordinator", "Clients", "Queues", "Values", "Loss", "Hold"])
        .map(str::to_owned)
        .collect();
    let source = ["core/src/recipes", "core/src/hold"].map(read_all).concat()
        + &["core/src/coordinator.rs", "core/src/registry/listing.rs"].map(read).concat();
    let all = methods(&source).into_iter().filter(|(of, _)| exported.contains(of));
    all.chain(functions(&read("src/lib.rs")))
        .filter(|(_, name)| !["tenures", "held_by", "connectors"].contains(&&**name))
        .collect()
}

/// What threads have.
fn blocking() -> BTreeSet<Method> {
    let mut all = methods(&read_all("src/blocking"));
    all.extend(functions(&read("src/blocking/mod.rs")));
    all
}

/// The methods of `asynchronous` that `blocking` has not.
fn without_twin(asynchronous: &BTreeSet<Method>, blocking: &BTreeSet<Method>) -> BTreeSet<Method> {
    let has = |of: &str, name: &str| blocking.contains(&(of.to_owned(), name.to_owned()));
    let twin = |(of, name): &&Method| match &**of {
        "Hold" => has(GUARD, name),
        of => has(of, name) || (of.ends_with("Guard") && has(GUARD, name)),
    };
    asynchronous.iter().filter(|method| !twin(method)).cloned().collect()
}

#[test]
fn every_method_has_a_twin_that_blocks() {
    let expected: BTreeSet<_> =
        WITHOUT_TWIN.iter().map(|(of, name, _)| ((*of).to_owned(), (*name).to_owned())).collect();
    let missing = without_twin(&asynchronous(), &blocking());
    assert_eq!(
        missing, expected,
        "left: methods without a twin in src/blocking; right: those that are known"
    );
}

/// What the test above reads, and that it misses what is taken out.
#[test]
fn a_twin_that_is_missing_is_named() {
    let (asynchronous, blocking) = (asynchronous(), blocking());
    let method = |of: &str, name: &str| (of.to_owned(), name.to_owned());
    for (of, name) in [
        ("Mutex", "try_acquire_as_with"),
        ("RwLock", "with_write"),
        ("WriteGuard", "downgrade"),
        ("Semaphore", "set_limit"),
        ("MultiLock", "acquire_within"),
        ("QuorumLock", "initialize"),
        ("Election", "campaign"),
        ("Election", "lead"),
        ("Leader", "resign"),
        ("Observer", "into_stream"),
        ("Group", "join_as"),
        ("GroupWatch", "into_changes"),
        ("Barrier", "wait"),
        ("Inside", "leave"),
        ("Counter", "compare_and_set"),
        ("IdGenerator", "next_id"),
        ("CountDownLatch", "wait_within"),
        ("SharedValue", "write_while"),
        ("ValueWatch", "changed"),
        ("Coordinator", "double_barrier"),
        ("Coordinator", "close_after"),
        ("Clients", "page"),
        ("latchwork", "with"),
    ] {
        assert!(asynchronous.contains(&method(of, name)), "{of}::{name} is not read");
        let mut fewer = blocking.clone();
        assert!(fewer.remove(&method(of, name)), "{of}::{name} is not read here");
        assert!(without_twin(&asynchronous, &fewer).contains(&method(of, name)), "{of}::{name}");
    }
    for name in ["release", "states", "lost", "run", "check", "remaining"] {
        assert!(asynchronous.contains(&method("Hold", name)), "Hold::{name} is not read");
        let mut fewer = blocking.clone();
        assert!(fewer.remove(&method(GUARD, name)), "Guard::{name} is not read");
        assert!(without_twin(&asynchronous, &fewer).contains(&method("Hold", name)), "Hold::{name}");
    }
}
