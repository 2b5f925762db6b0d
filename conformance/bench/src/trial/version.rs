//! What a server says that it is.

use std::time::Duration;

use crate::target::Target;

/// A server that does not say it in this time does not say it.
const PATIENCE: Duration = Duration::from_secs(3);

impl Target {
    /// The version of the server; `None` where it does not say it, or where there is no server.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn version(&self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.asked()).await.ok().flatten()
    }

    #[allow(clippy::unused_async, reason = "a build without servers asks none")]
    async fn asked(&self) -> Option<String> {
        match self.name() {
            #[cfg(feature = "redis")]
            "redis" => {
                let client = crate::raw::redis::client(self).ok()?;
                let mut connection = client.get_multiplexed_async_connection().await.ok()?;
                let info: String =
                    redis::cmd("INFO").arg("server").query_async(&mut connection).await.ok()?;
                let of = |name| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let valkey = of("valkey_version:").map(|version| format!("Valkey {version}"));
                valkey.or_else(|| of("redis_version:").map(str::to_owned))
            }
            #[cfg(feature = "zookeeper")]
            "zookeeper" => {
                let said = latchwork_servers::ask(self.addr()?, "srvr").await.ok()?;
                let version = said.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
                version.split(['-', ',']).next().map(|version| version.trim().to_owned())
            }
            #[cfg(feature = "etcd")]
            "etcd" => {
                let said =
                    latchwork_servers::ask(self.addr()?, "GET /version HTTP/1.0\r\n\r\n").await.ok()?;
                let body = said.split_once("\r\n\r\n")?.1;
                let versions: serde_json::Value = serde_json::from_str(body).ok()?;
                versions.get("etcdserver")?.as_str().map(str::to_owned)
            }
            _ => None,
        }
    }
}
