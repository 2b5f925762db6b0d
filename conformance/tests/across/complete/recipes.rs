use std::collections::BTreeSet;

use super::futures::declared_in;
use super::places::{Place, assert_all_missing, assert_filled_in, place, read};

/// Exports that are neither recipes nor their `…Guard`s.
const NO_RECIPE: [(&str, &str); 19] = [
    ("Acquire", REQUEST),
    ("Acquired", REQUEST),
    ("Acquiring", REQUEST),
    ("Ask", REQUEST),
    ("Take", REQUEST),
    ("Hold", "what all guards dereference to"),
    ("Guard", "the trait of guards"),
    ("Fenced", "the trait of guards that fence"),
    ("Reentrant", "the trait of guards of an owner"),
    ("Permit", "the guard of a semaphore"),
    ("MultiMember", "a lock as a part of a MultiLock"),
    ("Inside", "the guard of a double barrier"),
    ("Leadership", "the guard of an election"),
    ("Leader", "the leader, as all clients see it"),
    ("GroupChanges", "what differs between two states of a group"),
    ("GroupMember", "a member, as others see it"),
    ("Watch", "of an election, a group or a value"),
    ("Membership", "the guard of a group"),
    ("Compared", "the answer to a compare-and-set"),
];

const REQUEST: &str = "a part of a request";

/// No coordinator makes these.
const OVER_OTHERS: [&str; 2] = ["MultiLock", "QuorumLock"];

const WITHOUT_ADAPTER: [(&str, &str); 8] = [
    ("Barrier", NOBODY_HOLDS),
    ("CountDownLatch", NOBODY_HOLDS),
    ("Counter", NOBODY_HOLDS),
    ("DoubleBarrier", NOBODY_HOLDS),
    ("Election", "its queue is the queue of a mutex, and separate cases test its data and watch"),
    ("Group", NOBODY_HOLDS),
    ("IdGenerator", NOBODY_HOLDS),
    ("SharedValue", NOBODY_HOLDS),
];

const NOBODY_HOLDS: &str = "no client holds it exclusively";

fn recipes() -> Vec<String> {
    let text = read("core/src/recipes/mod.rs");
    let exports = text.split("pub use ").skip(1).filter_map(|line| line.split(';').next()?.split_once("::"));
    let names = exports.flat_map(|(_, names)| names.split(['{', '}', ',', ' ', '\n']));
    let is_recipe = |name: &&str| {
        let other = name.is_empty() || name.ends_with("Guard");
        !other && NO_RECIPE.iter().all(|(other, _)| other != name)
    };
    names.filter(is_recipe).map(str::to_owned).collect()
}

fn method(recipe: &str) -> Option<String> {
    let text = read("core/src/coordinator.rs");
    let line = text.lines().find(|line| line.ends_with(&format!("-> Result<{recipe}> {{")))?;
    let (name, _) = line.trim_start().strip_prefix("pub fn ")?.split_once('(')?;
    Some(name.to_owned())
}

fn places(recipe: &str) -> Vec<Place> {
    if OVER_OTHERS.contains(&recipe) {
        let made = format!("{recipe}::new(");
        return vec![
            place("src/lib.rs", "pub use latchwork_core::recipes::{", "}", format!(" {recipe},")),
            place("conformance/src/cases/futures.rs", "", "", format!("\"{recipe}")),
            place("README.md", "\n## Recipes", "\n## ", format!("\n| `{made}")),
            place("src/guide/recipes.md", "", "", made.clone()),
            place("conformance/src/adapter.rs", "fn lock(", "\n    }\n", made),
        ];
    }
    let method = method(recipe).unwrap_or_else(|| recipe.to_lowercase());
    let mut places = vec![
        place("core/src/coordinator.rs", "impl Coordinator", "", format!("-> Result<{recipe}>")),
        place("src/lib.rs", "pub use latchwork_core::recipes::{", "}", format!(" {recipe},")),
        place("conformance/src/cases/futures.rs", "", "", format!("\"{recipe}")),
        place("README.md", "\n## Recipes", "\n## ", format!("\n| `{method}(")),
        place("src/guide/recipes.md", "", "", format!("coordinator.{method}")),
    ];
    if WITHOUT_ADAPTER.iter().all(|(other, _)| *other != recipe) {
        places.push(place(
            "conformance/src/adapter.rs",
            "fn lock(",
            "\n    }\n",
            format!("coordinator.{method}("),
        ));
    }
    places
}

#[test]
fn every_recipe_is_in_all_places_of_a_recipe() {
    let recipes = recipes();
    assert!(
        ["Mutex", "Semaphore"].iter().all(|known| recipes.iter().any(|recipe| recipe == known)),
        "{recipes:?}"
    );
    for recipe in recipes {
        assert_filled_in(&places(&recipe));
    }
}

#[test]
fn a_recipe_that_is_only_exported_is_missed_in_all_places() {
    let places = places("Latch");
    assert_all_missing(&places);
    assert!(places.iter().any(|place| place.to_string().starts_with("src/guide/recipes.md: ")));
}

#[test]
fn every_verb_of_every_recipe_has_a_try() {
    let declared = declared_in("core/src/recipes");
    let queues = declared.iter().filter_map(|name| name.strip_suffix("::force_release"));
    let recipes: Vec<_> = OVER_OTHERS.into_iter().chain(queues).collect();
    assert_eq!(
        recipes,
        ["MultiLock", "QuorumLock", "Election", "Mutex", "RwLock", "Semaphore"],
        "a new recipe is in one of these lists"
    );
    assert_eq!(ungrammatical(&declared, &recipes), Vec::<String>::new());
    // A missing method, an additional one, and a recipe without a verb.
    for (without, with) in
        [("Mutex::try_acquire", "Mutex::queue"), ("Mutex::force_release", "RwLock::read_within")]
    {
        let mut spoilt = declared.clone();
        spoilt.remove(without);
        spoilt.insert(with.to_owned());
        assert_eq!(ungrammatical(&spoilt, &recipes).len(), 1, "without {without}, with {with}");
    }
    assert_eq!(ungrammatical(&BTreeSet::new(), &["Mutex"]).len(), 1);
}

const VERBS: &[&str] = &["acquire", "read", "write", "campaign"];

fn ungrammatical(declared: &BTreeSet<String>, recipes: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for recipe in recipes {
        let own: BTreeSet<_> =
            declared.iter().filter_map(|name| name.strip_prefix(&format!("{recipe}::"))).collect();
        let like = |name: &str, verb: &str| {
            let rest = name.strip_prefix("try_").unwrap_or(name).strip_prefix(verb);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        let verbs: Vec<_> = VERBS.iter().filter(|verb| own.iter().any(|name| like(name, verb))).collect();
        if verbs.is_empty() {
            found.push(format!("{recipe} has no verb"));
        }
        for verb in verbs {
            let methods = BTreeSet::from([verb.to_string(), format!("try_{verb}")]);
            let named = own.iter().filter(|name| like(name, verb));
            let named: BTreeSet<_> = named.map(|name| (*name).to_owned()).collect();
            found.extend(methods.symmetric_difference(&named).map(|name| format!("{recipe}::{name}")));
        }
    }
    found
}
