use std::collections::BTreeMap;

use latchwork_core::backend::KeysWith;
use latchwork_core::{CellLife, Kind, ListedKey, QueuePrefix};

use crate::context::Context;
use crate::testbed::Client;
use crate::waits::soon;

pub(super) fn keys(odd: &[&str], many: usize) -> Vec<String> {
    odd.iter().map(|key| (*key).to_owned()).chain((0..many).map(|n| format!("many/{n}"))).collect()
}

pub(super) async fn listed(
    context: &Context,
    client: &Client,
    (with, kind): (KeysWith, Kind),
    prefix: &str,
    most: usize,
) -> BTreeMap<String, CellLife> {
    let of = QueuePrefix::new(&context.fixture.config().namespace, kind, prefix).expect("a good prefix");
    let (mut lives, mut after) = (BTreeMap::new(), None);
    loop {
        let backend = client.coordinator.backend();
        let page = soon("list", backend.list_keys(with, &of, after.as_deref(), most)).await.expect("listed");
        let named = |listed: &ListedKey| (listed.address.name().to_owned(), listed.life);
        let in_page: BTreeMap<_, _> = page.items.iter().map(named).collect();
        assert_eq!(in_page.len(), page.items.len(), "twice in one page: {page:?}");
        assert!(page.items.iter().all(|listed| of.contains(&listed.address)), "{page:?}");
        lives.extend(in_page);
        match page.next {
            Some(next) => after = Some(next),
            None => return lives,
        }
    }
}

pub(super) async fn are_listed_by_their_beginning(
    context: &Context,
    client: &Client,
    of: (KeysWith, Kind),
    keys: &[String],
) {
    for prefix in ["", "a", "a/", "a/b", "many/", "many/1", "ä", ".", "..", "c", "d", "a/b*", "a/[b"] {
        let mut expected: Vec<_> = keys.iter().filter(|key| key.starts_with(prefix)).collect();
        expected.sort_unstable();
        for most in [1, 7, 1000] {
            let found = listed(context, client, of, prefix, most).await;
            assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{prefix:?}");
            let stays = |life: &CellLife| *life == CellLife::Stays;
            assert!(of.0 != KeysWith::Cell || found.values().all(stays), "{prefix:?}: {found:?}");
        }
    }
}
