use std::env;
use std::time::Duration;

use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::time::{Instant, sleep, timeout};

use crate::Kind;
use crate::binary::{AGAIN, READY};
use crate::options::{Clocks, Options};
use crate::probe;

pub(super) type Container = ContainerAsync<GenericImage>;

/// Includes the download of an image.
const FETCHED: Duration = Duration::from_secs(300);

/// A missing engine fails at once.
pub(super) async fn start(kind: Kind, options: &Options) -> Result<(Container, String), String> {
    let image = env::var(kind.image_variable()).unwrap_or_else(|_| kind.default_image().to_owned());
    let failed = |why: &dyn std::fmt::Display| format!("no container of {image}: {why}");
    let container = timeout(FETCHED, request(kind, &image, options).start())
        .await
        .map_err(|_| failed(&format!("no answer of the engine within {FETCHED:?}")))?
        .map_err(|error| failed(&error))?;
    let host = container.get_host().await.map_err(|error| failed(&error))?;
    let port =
        container.get_host_port_ipv4(kind.default_port().tcp()).await.map_err(|error| failed(&error))?;
    let addr = match host.to_string().as_str() {
        // The name may resolve to IPv6, but the port is mapped for IPv4.
        "localhost" => format!("127.0.0.1:{port}"),
        host => format!("{host}:{port}"),
    };
    let deadline = Instant::now() + READY;
    while !probe::serves(kind, &addr, None).await {
        if Instant::now() > deadline {
            return Err(failed(&format!("not ready after {READY:?}")));
        }
        sleep(AGAIN).await;
    }
    Ok((container, addr))
}

fn request(kind: Kind, image: &str, options: &Options) -> ContainerRequest<GenericImage> {
    // A colon before the last slash belongs to the registry's port.
    let (name, tag) = match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    };
    let image = GenericImage::new(name, tag).with_exposed_port(kind.default_port().tcp());
    let args = options.args.iter().cloned();
    match kind {
        Kind::Redis => {
            let fixed = "redis-server --bind 0.0.0.0 --protected-mode no --appendonly no --save";
            image.with_cmd(fixed.split(' ').map(str::to_owned).chain([String::new()]).chain(args))
        }
        Kind::Etcd => {
            let fixed = [
                "etcd".to_owned(),
                "--listen-client-urls=http://0.0.0.0:2379".to_owned(),
                "--advertise-client-urls=http://0.0.0.0:2379".to_owned(),
            ];
            let image = image.with_cmd(fixed.into_iter().chain(options.clocks.etcd_args()).chain(args));
            match options.clocks.etcd_environment() {
                Some((name, value)) => image.with_env_var(name, value),
                None => image,
            }
        }
        Kind::Zookeeper => {
            let fast = (options.clocks == Clocks::Fast).then(|| "maxSessionTimeout=60000".to_owned());
            let lines = ["maxClientCnxns=0".to_owned(), "forceSync=no".to_owned()];
            let extra: Vec<_> = lines.into_iter().chain(fast).chain(args).collect();
            image
                .with_env_var("ZOO_TICK_TIME", options.clocks.zookeeper_tick().as_millis().to_string())
                .with_env_var("ZOO_STANDALONE_ENABLED", "true")
                .with_env_var("ZOO_ADMINSERVER_ENABLED", "false")
                .with_env_var("ZOO_4LW_COMMANDS_WHITELIST", "*")
                .with_env_var("ZOO_CFG_EXTRA", extra.join(" "))
                .with_env_var("JVMFLAGS", "-Xmx256m")
        }
    }
}
