use crate::common::{Operator, admitted, queue, served, soon, waiting};
use latchwork_conformance::limits::{StoredLimit, bad_limits_are_reported_and_stay, permit, shows_bad_limit};
use latchwork_core::backend::{ExpectedLimit, Join, Patience};
use latchwork_core::{Kind, Limit};

const KEY: &str = "latchwork:semaphore:{a}:limit";

fn permits(limit: Limit, patience: Patience) -> Join {
    permit(&queue(Kind::Semaphore, "a"), limit, patience)
}

async fn store(operator: &mut Operator, text: &str) {
    operator.run(redis::cmd("SET").arg(KEY).arg(text)).await;
}

struct Key(Operator);

impl StoredLimit for Key {
    async fn write(&mut self, text: &str) {
        store(&mut self.0, text).await;
    }

    async fn read(&mut self) -> String {
        self.0.say(&format!("GET {KEY}")).await
    }
}

#[tokio::test]
async fn bad_limit_text_is_a_conflict_until_its_replacement() {
    let (_server, operator, client) = served("30s").await;
    let address = queue(Kind::Semaphore, "a");
    bad_limits_are_reported_and_stay(&*client, &address, &mut Key(operator)).await;
}

/// The waiter once read "-5" as two microseconds, and "nan" as no end.
#[tokio::test]
async fn a_waiter_learns_of_it_by_its_next_recheck_and_a_holder_goes_on() {
    let (_server, mut operator, client) = served("3s").await;
    let address = queue(Kind::Semaphore, "a");
    for stored in ["-5", "nan", "inf"] {
        client.set_limit(&address, ExpectedLimit::Any, 1).await.unwrap();
        let held = admitted(&client, &permits(Limit::Exactly(1), Patience::Wait)).await;
        let waiter = waiting(&client, &permits(Limit::Exactly(1), Patience::Wait)).await;
        let before = operator.calls("evalsha").await;
        store(&mut operator, stored).await;
        shows_bad_limit(&soon(waiter.admitted()).await.unwrap_err(), stored);
        // A renewal in each third of the TTL finds the text, even if the machine pauses.
        let looks = operator.calls("evalsha").await - before;
        assert!(looks < 20, "{looks} looks at {stored}");
        assert_eq!(held.state().lost(), None);
        waiter.leave().await.unwrap();
        held.leave().await.unwrap();
    }
}
