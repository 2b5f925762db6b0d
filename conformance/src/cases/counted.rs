//! CELL-COUNT: changes of counts by the server.

use latchwork_core::backend::decide::count::request::{CountOutcome, CountRequest, Decided};
use latchwork_core::backend::decide::count::{Change, Changed, Count, Operation, WRITERS};
use latchwork_core::{Address, ErrorKind, Expected, Result};

use super::cell::{delete, value, write};
use crate::actions::caught;
use crate::case::cases;
use crate::cell_actions::{self, put, read, text};
use crate::context::Context;
use crate::errors::fails;
use crate::testbed::Client;
use crate::waits::soon;

const WRITER: u64 = 0xf00d;
/// Too long to be in other requests by chance.
const KEY: &str = "countsofitsown";

fn request(writer: u64, number: u64, change: Change) -> CountRequest {
    let operation = Operation { writer, number };
    CountRequest { change, operation, initial: None, since: Some(0), in_doubt: false }
}

async fn send(client: &Client, cell: &Address, request: CountRequest) -> Result<Option<Decided>> {
    soon("change_count", client.coordinator.backend().change_count(cell, &request, None)).await
}

async fn decided(client: &Client, cell: &Address, request: CountRequest) -> Decided {
    send(client, cell, request).await.expect("answered").expect("always or never")
}

async fn outcome(client: &Client, cell: &Address, request: CountRequest) -> CountOutcome {
    decided(client, cell, request).await.outcome
}

async fn count(client: &Client, cell: &Address) -> Count {
    text(client, cell).await.map_or_else(Count::default, |text| text.parse().expect("a count"))
}

/// Without the operation, a backend must answer without a request.
async fn changes_counts(client: &Client, cell: &Address) -> bool {
    let asked = client.link.asked();
    let answer = send(client, cell, request(1, 2, Change::Add(0))).await.expect("answered");
    if answer.is_none() {
        assert_eq!(client.link.asked(), asked, "a backend without this operation must not send a request");
        assert_eq!(text(client, cell).await, None);
    }
    answer.is_some()
}

async fn fixture(context: &Context) -> Option<(Client, Address)> {
    let client = context.quiet().await;
    let cell = client.coordinator.counter(KEY).expect("a good key").address().clone();
    changes_counts(&client, &cell).await.then_some((client, cell))
}

async fn delete_count(client: &Client) {
    client.coordinator.counter(KEY).expect("a good key").delete().await.expect("deleted");
}

cases! {
    "CELL-COUNT" =>
    /// a request that arrives again is answered from the record, and a request of an ended operation is refused
    async fn cell_count_repeated_request_is_applied_once(context) {
        let Some((client, cell)) = fixture(context).await else { return };
        let other = context.client().await;
        let add = request(WRITER, 2, Change::Add(5));
        assert_eq!(outcome(&client, &cell, add).await, CountOutcome::Applied(5));
        assert_eq!(outcome(&other, &cell, request(7, 2, Change::Add(-7))).await, CountOutcome::Applied(-2));
        assert_eq!(outcome(&client, &cell, CountRequest { in_doubt: true, ..add }).await, CountOutcome::Applied(5));
        let next = request(WRITER, 4, Change::Swap { from: -2, to: i64::MAX });
        assert_eq!(outcome(&client, &cell, next).await, CountOutcome::Applied(i64::MAX));
        assert_eq!(outcome(&client, &cell, add).await, CountOutcome::Refused, "the writer has made a later operation");
        assert_eq!(outcome(&client, &cell, request(7, 4, Change::Add(1))).await, CountOutcome::Refused, "no room");
        assert_eq!(count(&other, &cell).await.value(), i64::MAX);
        delete_count(&client).await;
    }

    "CELL-COUNT" =>
    /// after a refusal, a request of the same operation that arrives late is refused too
    async fn cell_count_refused_is_not_made_late(context) {
        let Some((client, cell)) = fixture(context).await else { return };
        let other = context.client().await;
        let swap = request(WRITER, 2, Change::Swap { from: 3, to: 9 });
        let mut parked = client.link.park(KEY);
        let answer = caught(&mut *parked, send(&client, &cell, swap)).await;
        fails(answer, ErrorKind::OutcomeUnknown, "its reply is lost");
        let again = CountRequest { in_doubt: true, ..swap };
        assert_eq!(outcome(&client, &cell, again).await, CountOutcome::Refused, "it is 0");
        assert_eq!(outcome(&other, &cell, request(7, 2, Change::Add(3))).await, CountOutcome::Applied(3));
        soon("it arrives", parked.deliver()).await;
        assert_eq!(count(&other, &cell).await.value(), 3, "the condition would hold by now");
        delete_count(&client).await;
    }

    "CELL-COUNT" =>
    /// an operation is not applied if its record may have been replaced
    async fn cell_count_forgotten_is_not_applied_again(context) {
        let Some((client, cell)) = fixture(context).await else { return };
        let add = request(WRITER, 2, Change::Add(1));
        let first = decided(&client, &cell, add).await;
        assert_eq!(first.outcome, CountOutcome::Applied(1));
        for writer in 0..WRITERS as u64 {
            let other = CountRequest { since: None, ..request(1000 + writer, 2, Change::Add(1)) };
            // The list of records is full before the last of them.
            if let Decided { outcome: CountOutcome::Untold, writes } = decided(&client, &cell, other).await {
                let since = Some(writes);
                let sum = outcome(&client, &cell, CountRequest { since, ..other }).await;
                assert!(matches!(sum, CountOutcome::Applied(_)), "{sum:?}");
            }
        }
        let sum = count(&client, &cell).await.value();
        assert_eq!(sum, 1 + i64::try_from(WRITERS).expect("few"));
        for since in [Some(0), None] {
            assert_eq!(outcome(&client, &cell, CountRequest { since, ..add }).await, CountOutcome::Untold);
        }
        assert_eq!(count(&client, &cell).await.value(), sum);
        delete_count(&client).await;
    }

    "CELL-COUNT" =>
    /// a count and a compare-and-set leave the same content in the cell, and each continues from the other
    async fn cell_count_agrees_with_compare_and_set(context) {
        let Some((client, cell)) = fixture(context).await else { return };
        let other = context.client().await;
        for number in 1..20 {
            let operation = Operation { writer: number % 3, number: 2 * number };
            let change = Change::Add(i64::MAX / 19);
            let before = count(&client, &cell).await;
            let Changed::To(next) = before.changed(change, operation) else { panic!("it fits") };
            if number % 2 == 0 {
                let asked = request(operation.writer, operation.number, change);
                assert_eq!(outcome(&client, &cell, asked).await, CountOutcome::Applied(next.value()));
            } else {
                let seen = read(&other, &cell).await;
                let expected = seen.map_or(Expected::Absent, |seen| Expected::Version(seen.version));
                cell_actions::write(&other, &cell, put(expected, next.to_string())).await;
            }
            assert_eq!(text(&other, &cell).await, Some(next.to_string()));
        }
        delete_count(&client).await;
    }

    "CELL-COUNT" =>
    /// a cell that is not a count, or that began with another number, is a conflict, and stays
    async fn cell_count_of_another_thing_is_a_conflict(context) {
        let Some((client, _)) = fixture(context).await else { return };
        delete_count(&client).await;
        let it = value(&client, KEY);
        let others = [("5 1 of 3", Some(4)), ("5 1 of 3", None), ("5 1", Some(5)), ("five", None), ("05 1", None)];
        for (stands, initial) in others {
            write(&it, stands).await;
            let asked = CountRequest { initial, ..request(WRITER, 2, Change::Down(1)) };
            fails(send(&client, it.address(), asked).await, ErrorKind::Conflict, stands);
            assert_eq!(text(&client, it.address()).await.as_deref(), Some(stands));
        }
        delete(&it).await;
    }
}
