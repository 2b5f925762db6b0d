/// Tier 2.
mod larger {
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::{StreamExt, stream};
    use latchwork_conformance::proxy::{Direction, Proxy};
    use latchwork_core::{Claim, Kind};

    use crate::common::{admitted, ask, connect, outlive, own, queue, soon};

    /// 24 bursts renew them, if there is time.
    const NODES: usize = 24 * 256;
    /// A trip for each burst takes longer than a lease.
    const TRIP: Duration = Duration::from_millis(1500);
    const TTL: &str = "30s";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn thousands_of_nodes_are_renewed_in_time_over_a_slow_way() {
        let server = own(&[]).await;
        let proxy = Proxy::start(server.addr()).await.unwrap();
        let client = connect(&format!("redis://{}?ttl={TTL}", proxy.addr())).await;
        let join = |number: usize| {
            let client = Arc::clone(&client);
            async move {
                admitted(&client, &ask(&queue(Kind::Mutex, &number.to_string()), Claim::Exclusive)).await
            }
        };
        let nodes: Vec<_> = soon(stream::iter(0..NODES).map(join).buffer_unordered(200).collect()).await;
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, TRIP / 2);
        }
        outlive(&client.lease(), 1.5).await;
        let lost: Vec<_> = nodes.iter().filter_map(|node| node.state().lost()).collect();
        assert_eq!(lost, [], "lost nodes, of {NODES}: {}", lost.len());
    }
}
