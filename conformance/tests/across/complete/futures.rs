use std::collections::BTreeSet;

use latchwork_conformance::cases;

use super::places::sources;

const NOT_DROPPED: &[(&str, &str)] = &[
    ("Ask::of", "makes the requests of the verbs, which are in the table"),
    ("crash", "for tests: it leaves all holds to the lease, dropped or not"),
    ("Coordinator::close_after", "the work of its caller, and then `close`, which is in the table"),
    ("Backend::close", CONTRACT),
    ("Backend::server_facts", CONTRACT),
    ("ClockDifference::measured", "of backends: it sends requests, and holds nothing"),
    ("Backend::list_keys", CONTRACT),
    ("Cells::change_count", CONTRACT),
    ("Cells::read_cell", CONTRACT),
    ("Cells::write_cell", CONTRACT),
    ("ChangeWatch::changed", CONTRACT),
    ("CloseOnce::close", FLIGHT),
    ("Connector::connect", CONTRACT),
    ("connect_within", "of backends: it is dropped with the connect that it bounds"),
    ("CredentialsProvider::credentials", "implemented by a user, and called again if a dial was dropped"),
    ("Logins::now", "of backends: it is dropped with the dial that it is for"),
    ("Transport::prepare", "of backends: it reads files, and is dropped with the connect"),
    ("Transport::secure", DIAL),
    ("Transport::dial", DIAL),
    ("exchange", DIAL),
    ("find_server", DIAL),
    ("greet", DIAL),
    ("stranger", DIAL),
    ("SharedTask::wait", FLIGHT),
    ("SharedTask::wait_within", FLIGHT),
    ("Node::admitted", CONTRACT),
    ("Node::confirm", CONTRACT),
    ("Node::downgrade", CONTRACT),
    ("Node::leave", CONTRACT),
    ("Node::write_cell", CONTRACT),
    ("Node::write_data", CONTRACT),
    ("Backoff::wait", "of backends: it sleeps, and holds nothing"),
    ("SequentialNodes::abandon", CONTRACT),
    ("SequentialNodes::join", CONTRACT),
    ("SequentialNodes::limit", CONTRACT),
    ("SequentialNodes::list", CONTRACT),
    ("SequentialNodes::revoke", CONTRACT),
    ("SequentialNodes::set_limit", CONTRACT),
    (
        "Throttle::take",
        "of backends: requests wait in it for their turn, and are dropped there with the futures that send them",
    ),
    ("Move::abort", OPERATOR),
    ("Move::advance", OPERATOR),
    ("Move::close", OPERATOR),
    ("Move::connect", OPERATOR),
    ("Move::finish", OPERATOR),
    ("Move::plan", OPERATOR),
    ("Move::run", OPERATOR),
    ("Move::start", OPERATOR),
    ("Move::status", OPERATOR),
    ("Move::reopen", OPERATOR),
    ("Move::repair", OPERATOR),
    ("Move::step_back", OPERATOR),
    ("Operator::connect", "as `connect`, which is in the table"),
    ("marker_of", "as `Operator::marker`, which is in the table"),
];

const OPERATOR: &str = "of an operator, which holds nothing: its unit tests end it at each of its requests";

const CONTRACT: &str = "of the contract: core awaits it, and drops it when a recipe's future is dropped";

const DIAL: &str = "of backends: it holds a connection, which ends with it";

const FLIGHT: &str = "of backends: it waits for another task, and its unit tests drop it";

const NOT_ASYNC: &[&str] = &["Hold::lost", "Hold::run", "Hold::states", "connect_lazy"];

#[test]
fn every_public_future_of_core_is_dropped_at_every_await_point() {
    let mut declared = declared_in("core/src");
    let sample = ["Mutex::acquire", "Hold::release", "Node::leave", "connect"];
    assert!(
        sample.iter().all(|name| declared.contains(*name)),
        "the test does not find the functions in the sources: {declared:?}"
    );
    let tabled: BTreeSet<_> = cases::futures::names().map(str::to_owned).collect();
    let excused: BTreeSet<_> = NOT_DROPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert!(NOT_DROPPED.iter().all(|(_, why)| !why.is_empty()));
    assert!(tabled.is_disjoint(&excused), "excused, but in the table: {:?}", tabled.intersection(&excused));
    let known: BTreeSet<_> = tabled.union(&excused).cloned().collect();
    declared.extend(NOT_ASYNC.iter().map(|name| (*name).to_owned()));
    assert_eq!(known, declared);
}

/// A verb is a function that returns a request.
fn verb(line: &str) -> Option<String> {
    let declared = line.strip_prefix("    pub fn ").filter(|_| line.contains("-> Acquire<"))?;
    Some(name(declared))
}

fn implemented(rest: &str) -> String {
    let mut depth = 0_usize;
    let behind = rest.find(|char: char| {
        match char {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        depth == 0 && char == ' '
    });
    behind.map_or_else(String::new, |at| name(&rest[at + 1..]))
}

/// Verbs, `pub async fn`s and `async fn`s of public traits, as `Type::function`, without memory's controls
/// for tests.
pub(crate) fn declared_in(folder: &str) -> BTreeSet<String> {
    let mut declared = BTreeSet::new();
    let mut sources = sources(folder);
    sources.retain(|(path, _)| !path.components().any(|part| part.as_os_str() == "memory"));
    for (_, text) in sources {
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let mut owner = None;
        for line in code.lines() {
            if let Some(rest) = line.strip_prefix("impl") {
                // Functions of a trait count at the trait.
                owner = (!rest.contains(" for ")).then(|| (implemented(rest), false));
            } else if let Some(rest) = line.strip_prefix("pub trait ") {
                owner = Some((name(rest), true));
            } else if line == "}" {
                owner = None;
            }
            if let (Some((owner, _)), Some(verb)) = (&owner, verb(line)) {
                declared.insert(format!("{owner}::{verb}"));
            }
            let function = match &owner {
                Some((_, true)) => line.strip_prefix("    async fn "),
                Some((_, false)) => line.strip_prefix("    pub async fn "),
                None => line.strip_prefix("pub async fn "),
            };
            if let Some(function) = function.map(name) {
                declared.insert(
                    owner.as_ref().map_or(function.clone(), |(owner, _)| format!("{owner}::{function}")),
                );
            }
        }
    }
    declared
}

fn name(text: &str) -> String {
    text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect()
}
