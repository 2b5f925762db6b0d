//! CELL-LIST: the cells of a kind, by pages.

use std::collections::BTreeMap;
use std::time::Duration;

use super::key_pages::{are_listed_by_their_beginning, keys, listed};
use crate::actions::{admitted, leave};
use crate::bounds::SHORT_TTL;
use crate::case::cases;
use crate::cell_actions::delete;
use crate::errors::refuses;
use crate::waits::soon;
use latchwork_core::backend::KeysWith;
use latchwork_core::{Address, CellLife, Claim, Kind, QueuePrefix, TimeToIdle};
use tokio::time::Instant;

use super::ephemeral::write;

cases! {
    "CELL-LIST" =>
    /// the cells of a kind are listed by a prefix of their keys, in pages, without other kinds, namespaces, deleted
    /// cells or queues
    async fn cell_list_is_by_the_beginning_of_keys(context) {
        let client = context.client().await;
        let odd = ["a", "a/", "a/b*c", "a/[b]", "a/b{c}", "b/a", "a%2Fb", "ä/a", ".", "..a", "cell", "a}:cell"];
        let keys = keys(&odd, 23);
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
        let queue = admitted(&client, &context.queue_of(Kind::Mutex, "a/queue"), Claim::Exclusive).await;
        are_listed_by_their_beginning(context, &client, (KeysWith::Cell, Kind::Counter), &keys).await;
        let others = listed(context, &client, (KeysWith::Cell, Kind::Ids), "", 10).await;
        assert_eq!(others.into_keys().collect::<Vec<_>>(), ["a/other kind"]);
        assert_eq!(listed(context, &client, (KeysWith::Cell, Kind::Latch), "", 10).await, BTreeMap::new());
        let of = QueuePrefix::new(&namespace, Kind::Mutex, "").expect("a good prefix");
        refuses(client.coordinator.backend().list_keys(KeysWith::Cell, &of, None, 10).await, "kind");
        let queues = client.coordinator.list(Kind::Mutex, "a/").expect("a good prefix");
        let queues = soon("list", queues.all()).await.expect("listed");
        assert_eq!(queues.iter().map(|listed| listed.address.name()).collect::<Vec<_>>(), ["a/queue"]);
        leave(&queue).await;
        for cell in cells.iter().chain([&other, &elsewhere]) {
            assert!(delete(&client, cell).await);
        }
        assert_eq!(listed(context, &client, (KeysWith::Cell, Kind::Counter), "", 10).await, BTreeMap::new());
    }

    "CELL-LIST" =>
    /// a listing shows how long each cell stays, by its last write; a listing does not use a cell, so an unused cell
    /// expires although it is listed all the time
    async fn cell_list_shows_the_life_of_each_cell(context) {
        let client = context.client().await;
        let of = (KeysWith::Cell, Kind::Value);
        let cell = |key| context.queue_of(Kind::Value, key);
        let idle = |time| CellLife::Idle(TimeToIdle::new(time).expect("within the bounds"));
        write(&client, &cell("leased"), "here", CellLife::Lease).await;
        write(&client, &cell("stays"), "here", CellLife::Lease).await;
        write(&client, &cell("stays"), "here", CellLife::Stays).await;
        let mut expected = BTreeMap::from([
            ("leased".to_owned(), CellLife::Lease),
            ("stays".to_owned(), CellLife::Stays),
        ]);
        if context.testbed.capabilities().idle_cells {
            let times = [("long", TimeToIdle::LONGEST), ("odd", Duration::from_millis(600_250))];
            for (key, time) in times {
                write(&client, &cell(key), "here", CellLife::Stays).await;
                write(&client, &cell(key), "here", idle(time)).await;
            }
            let lives = listed(context, &client, of, "", 2).await;
            for (key, time) in times {
                let Some(CellLife::Idle(told)) = lives.get(key) else { panic!("{key}: {lives:?}") };
                let is_it = told.get() >= time && told.get() < time + Duration::from_secs(1);
                assert!(is_it, "{told:?} of {time:?}");
                expected.insert(key.to_owned(), lives[key]);
            }
        }
        assert_eq!(listed(context, &client, of, "", 2).await, expected);
        if context.testbed.capabilities().idle_cells {
            write(&client, &cell("goes"), "here", idle(SHORT_TTL)).await;
            let bound = Instant::now() + context.idle_bound(SHORT_TTL);
            while listed(context, &client, of, "goes", 2).await != BTreeMap::new() {
                assert!(Instant::now() < bound, "a listing must not count as a use of the cell");
                tokio::time::sleep(SHORT_TTL / 8).await;
            }
        }
        for key in expected.keys() {
            assert!(delete(&client, &cell(key)).await);
        }
    }
}
