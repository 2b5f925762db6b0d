use crate::common::{address, place};
use futures_util::future::try_join_all;
use latchwork_core::Kind;
use latchwork_core::backend::EntryPage;
use zookeeper_client::{Acls, CreateMode};

const LONG: usize = 30_000;

#[tokio::test]
async fn a_queue_of_thirty_thousand_is_listed() {
    let (config, client, stranger) = place().await;
    let queue = address(&config, Kind::Mutex, "a");
    let path = format!("/{}/mutex/a", config.namespace);
    stranger.create(&path, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let node = format!("{path}/_c_3b980b22-3347-4189-8b94-8ce3d792b8f4-lock-");
    for _ in 0..LONG / 1000 {
        try_join_all((0..1000).map(|_| stranger.create(&node, b"tester", &options))).await.unwrap();
    }
    for most in [1, 1000, usize::MAX] {
        let page = client.list(&queue, EntryPage::new(0, most)).await.unwrap();
        assert_eq!(page.len(), most.min(LONG));
        assert!(page.is_sorted_by(|a, b| a.sequence < b.sequence) && page[0].admitted);
        let after = page[page.len() - 1].sequence;
        let next = client.list(&queue, EntryPage::new(after, 1)).await.unwrap();
        assert_eq!(next.len(), usize::from(page.len() < LONG));
        assert!(next.iter().all(|entry| entry.sequence > after && !entry.admitted));
    }
}
