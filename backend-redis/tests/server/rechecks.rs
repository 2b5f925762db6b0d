use latchwork_conformance::recorder::Recorder;
use latchwork_core::{Config, Coordinator, connect};

use crate::common::{LONG, Operator, SHORT, own, soon};

async fn client(url: &str, ttl: &str) -> Coordinator {
    let config = Config::from_url(&format!("{url}?ttl={ttl}")).unwrap();
    soon(connect(&[latchwork_redis::connector()], &config)).await.unwrap()
}

/// A script would send a message.
#[tokio::test]
async fn an_admission_without_a_message_is_found_and_counted() {
    let server = own(&[]).await;
    let (holder, recorder) = (client(server.url(), LONG).await, Recorder::new());
    let waiting = recorder.scope(client(server.url(), SHORT)).await;
    let found = || recorder.sum("latchwork_rechecks_found_total", &[("what", "admission")]);
    for (silently, counted) in [(false, 0.0), (true, 1.0)] {
        let mutex = holder.mutex("a").unwrap();
        let hold = soon(mutex.acquire()).await.unwrap();
        let waiter = waiting.mutex("a").unwrap();
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        while mutex.queue().first(10).await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        if silently {
            let first = mutex.queue().first(1).await.unwrap()[0].sequence;
            let words = format!("ZREMRANGEBYSCORE latchwork:mutex:{{a}}:seq {first} {first}");
            assert_eq!(Operator::of(&server).await.say::<u32>(&words).await, 1);
        } else {
            soon(hold.release()).await.unwrap();
        }
        let admitted = soon(waiter).await.unwrap().unwrap();
        soon(admitted.release()).await.unwrap();
        assert_eq!(found(), counted, "silently: {silently}, {recorder:?}");
    }
}
