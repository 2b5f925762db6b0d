use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::backend::connect_within;
use tokio::runtime::Handle;

use crate::config::Settings;
use crate::driver::Driver;
use crate::error::Answer;
use crate::layout::in_directory;
use crate::namespace::connect_error;

/// Nodes in one trip, so that other clients do not wait long.
const AT_ONCE: usize = 100;
/// Covers the whole deletion, because the session is not renewed. A smaller grant may leave a part of a very
/// large namespace.
const LONG: Duration = Duration::from_secs(300);

pub(crate) async fn sweep(mut settings: Settings) -> Result<usize> {
    settings.ttl = settings.ttl.max(LONG);
    let (runtime, within, hosts) = (Handle::current(), settings.connect_timeout, settings.hosts.clone());
    let connecting = async {
        let connected = Driver::connect_inside(&settings, &runtime, None).await;
        connected.map_err(|fault| connect_error(fault, &settings))
    };
    let driver = connect_within(within, "ZooKeeper", &hosts, connecting).await?;
    let swept = delete_below(&driver, format!("/{}", settings.namespace)).await;
    driver.close();
    swept.map_err(|fault| fault.error_without_trace(&format!("delete the namespace {}", settings.namespace)))
}

async fn delete_below(driver: &Driver, root: String) -> Answer<usize> {
    let mut nodes = vec![root];
    let mut listed = 0;
    while listed < nodes.len() {
        let some = &nodes[listed..nodes.len().min(listed + AT_ONCE)];
        listed += some.len();
        let paths: Vec<_> = some.iter().map(String::as_str).collect();
        let mut below = Vec::new();
        for (node, found) in some.iter().zip(driver.nodes(&paths).await?) {
            let children = found.map(|(children, _)| children).unwrap_or_default();
            below.extend(children.iter().map(|child| in_directory(node, child)));
        }
        nodes.extend(below);
    }
    nodes.reverse();
    for some in nodes.chunks(AT_ONCE) {
        driver.delete_all(some).await?;
    }
    Ok(nodes.len())
}
