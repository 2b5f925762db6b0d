//! CELL-LIST: the cells of a kind, page by page.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::actions::join;
use crate::bounds::SHORT_TTL;
use crate::case::cases;
use crate::cell_actions::delete;
use crate::context::Context;
use crate::testbed::Client;
use crate::waits::soon;
use latchwork_core::backend::{Joined, KeysWith};
use latchwork_core::{Address, CellLife, Claim, Kind, ListedKey, Page, QueuePrefix, TimeToIdle};
use tokio::time::Instant;

use super::ephemeral::write;

/// The keys of all cells that are listed, in pages, and how long each stays.
async fn listed(
    context: &Context,
    client: &Client,
    kind: Kind,
    prefix: &str,
    most: usize,
) -> BTreeMap<String, CellLife> {
    let of = QueuePrefix::new(&context.fixture.config().namespace, kind, prefix).expect("a good prefix");
    let (mut lives, mut after) = (BTreeMap::new(), None);
    loop {
        let backend = client.coordinator.backend();
        let page = soon("list", backend.list_keys(KeysWith::Cell, &of, after.as_deref(), most)).await;
        let Page { items: cells, next, .. } = page.expect("listed");
        let named = |listed: &ListedKey| (listed.address.name().to_owned(), listed.life);
        let in_page: BTreeMap<_, _> = cells.iter().map(named).collect();
        assert_eq!(in_page.len(), cells.len(), "twice in one page: {cells:?}");
        assert!(cells.iter().all(|listed| of.contains(&listed.address)), "{cells:?}");
        lives.extend(in_page);
        match next {
            Some(next) => after = Some(next),
            None => return lives,
        }
    }
}

cases! {
    "CELL-LIST" =>
    /// the cells of a kind are listed by the beginning of their keys, in pages, and no others: not
    /// those of another kind or namespace, nor those that were deleted, nor queues
    async fn cell_list_is_by_the_beginning_of_keys(context) {
        const MANY: usize = 23;
        let client = context.client().await;
        let odd = ["a", "a/", "a/b*c", "a/[b]", "a/b{c}", "b/a", "a%2Fb", "ä/a", ".", "..a", "cell", "a}:cell"];
        let keys: Vec<_> = odd.into_iter().map(str::to_owned).chain((0..MANY).map(|n| format!("many/{n}"))).collect();
        let cells: Vec<_> = keys.iter().map(|key| context.queue_of(Kind::Counter, key)).collect();
        for cell in &cells {
            write(&client, cell, "here", CellLife::Stays).await;
        }
        let other = context.queue_of(Kind::Ids, "a/other kind");
        let namespace = format!("{}-2", context.fixture.config().namespace);
        let elsewhere = Address::new(&namespace, Kind::Counter, "a/elsewhere").expect("a good key");
        let deleted = context.queue_of(Kind::Counter, "a/deleted");
        for cell in [&other, &elsewhere, &deleted] {
            write(&client, cell, "here", CellLife::Stays).await;
        }
        assert!(delete(&client, &deleted).await);
        let queue = join(&client, &context.queue_of(Kind::Mutex, "a/queue"), Claim::Exclusive).await;
        for prefix in ["", "a", "a/", "a/b", "many/", "many/1", "ä", ".", "..", "c", "d", "a/b*", "a/[b"] {
            let stays = |key: &String| (key.clone(), CellLife::Stays);
            let expected: BTreeMap<_, _> = keys.iter().filter(|key| key.starts_with(prefix)).map(stays).collect();
            for most in [1, 7, 1000] {
                assert_eq!(listed(context, &client, Kind::Counter, prefix, most).await, expected, "{prefix:?}");
            }
        }
        let others = listed(context, &client, Kind::Ids, "", 10).await;
        assert_eq!(others.into_keys().collect::<Vec<_>>(), ["a/other kind"]);
        assert_eq!(listed(context, &client, Kind::Latch, "", 10).await, BTreeMap::new());
        let of = QueuePrefix::new(&namespace, Kind::Mutex, "").expect("a good prefix");
        let error = client.coordinator.backend().list_keys(KeysWith::Cell, &of, None, 10).await.expect_err("no cells");
        assert_eq!(error.argument(), Some("kind"), "{error}");
        let queues = client.coordinator.list(Kind::Mutex, "a/").expect("a good prefix");
        let queues = soon("list", queues.all()).await.expect("listed");
        assert_eq!(queues.iter().map(|listed| listed.address.name()).collect::<Vec<_>>(), ["a/queue"]);
        let Joined::Admitted(queue) = queue else { panic!("nobody else is there") };
        soon("leave", queue.leave()).await.expect("left");
        for cell in cells.iter().chain([&other, &elsewhere]) {
            assert!(delete(&client, cell).await);
        }
        assert_eq!(listed(context, &client, Kind::Counter, "", 10).await, BTreeMap::new());
    }

    "CELL-LIST" =>
    /// a listing tells how long each cell stays, by its last write; it is no use of a cell, so one that
    /// nobody uses goes though it is listed all the time
    async fn cell_list_tells_how_long_each_stays(context) {
        let client = context.client().await;
        let kind = Kind::Value;
        let cell = |key| context.queue_of(kind, key);
        let idle = |time| CellLife::Idle(TimeToIdle::new(time).expect("within the bounds"));
        write(&client, &cell("leased"), "here", CellLife::Lease).await;
        write(&client, &cell("stays"), "here", CellLife::Lease).await;
        write(&client, &cell("stays"), "here", CellLife::Stays).await;
        let mut expected = BTreeMap::from([
            ("leased".to_owned(), CellLife::Lease),
            ("stays".to_owned(), CellLife::Stays),
        ]);
        if context.testbed.capabilities().idle_cells {
            // Long enough for two listings of a busy server, with the keys of other cases.
            let times = [("long", TimeToIdle::LONGEST), ("odd", Duration::from_millis(600_250))];
            for (key, time) in times {
                write(&client, &cell(key), "here", CellLife::Stays).await;
                write(&client, &cell(key), "here", idle(time)).await;
            }
            let lives = listed(context, &client, kind, "", 2).await;
            for (key, time) in times {
                let Some(CellLife::Idle(told)) = lives.get(key) else { panic!("{key}: {lives:?}") };
                let is_it = told.get() >= time && told.get() < time + Duration::from_secs(1);
                assert!(is_it, "{told:?} of {time:?}");
                expected.insert(key.to_owned(), lives[key]);
            }
        }
        assert_eq!(listed(context, &client, kind, "", 2).await, expected);
        if context.testbed.capabilities().idle_cells {
            write(&client, &cell("goes"), "here", idle(SHORT_TTL)).await;
            let bound = Instant::now() + context.idle_bound(SHORT_TTL);
            while listed(context, &client, kind, "goes", 2).await != BTreeMap::new() {
                assert!(Instant::now() < bound, "a listing is no use");
                tokio::time::sleep(SHORT_TTL / 8).await;
            }
        }
        for key in expected.keys() {
            assert!(delete(&client, &cell(key)).await);
        }
    }
}
