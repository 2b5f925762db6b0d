//! What is stored as a limit and is none: told as what it is, and left alone until a limit is set.

mod common;

use common::{Operator, admitted, client, own, queue, soon, waiting};
use latchwork_conformance::limits::{Place, is_told, permit, what_is_none_is_told_and_stays};
use latchwork_core::Kind;
use latchwork_core::contracts::{AskedLimit, Join, Patience};

const KEY: &str = "latchwork:semaphore:{a}:limit";

fn permits(limit: AskedLimit, patience: Patience) -> Join {
    permit(&queue(Kind::Semaphore, "a"), limit, patience)
}

async fn store(operator: &mut Operator, text: &str) {
    operator.run(redis::cmd("SET").arg(KEY).arg(text)).await;
}

struct Key(Operator);

impl Place for Key {
    async fn write(&mut self, text: &str) {
        store(&mut self.0, text).await;
    }

    async fn read(&mut self) -> String {
        self.0.say(&format!("GET {KEY}")).await
    }
}

#[tokio::test]
async fn what_is_no_limit_is_a_conflict_that_shows_it_and_stays_until_one_is_set() {
    let server = own(&[]).await;
    let operator = Operator::of(&server).await;
    let client = client(&server, "30s").await;
    let address = queue(Kind::Semaphore, "a");
    what_is_none_is_told_and_stays(&*client, &address, &mut Key(operator)).await;
}

/// A waiter once took "-5" for a wait of two microseconds, and "nan" for a wait without an end.
#[tokio::test]
async fn who_waits_is_told_of_it_by_its_next_look_and_who_holds_goes_on() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "3s").await;
    let address = queue(Kind::Semaphore, "a");
    for stored in ["-5", "nan", "inf"] {
        client.set_limit(&address, 1).await.unwrap();
        let held = admitted(&client, &permits(AskedLimit::Exactly(1), Patience::Wait)).await;
        let waiter = waiting(&client, &permits(AskedLimit::Exactly(1), Patience::Wait)).await;
        let before = operator.calls("evalsha").await;
        store(&mut operator, stored).await;
        is_told(&soon(waiter.admitted()).await.unwrap_err(), stored);
        // Nobody tells: a renewal each third of the TTL does, of a machine that may stand still.
        let looks = operator.calls("evalsha").await - before;
        assert!(looks < 20, "{looks} looks at {stored}");
        assert_eq!(held.state().lost(), None);
        waiter.leave().await.unwrap();
        held.leave().await.unwrap();
    }
}
