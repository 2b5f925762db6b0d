use std::path::PathBuf;

/// The settings of a server that speaks TLS on a second port.
#[derive(Clone, Debug)]
pub struct ServerTls {
    folder: PathBuf,
    demands: bool,
}

impl ServerTls {
    /// Creates settings with the files in `folder`: `server.pem`, `server.key` (both in `server-both.pem` for
    /// ZooKeeper) and `ca.pem`. A server that `demands` certificates refuses clients without one.
    pub fn new(folder: impl Into<PathBuf>, demands: bool) -> Self {
        Self { folder: folder.into(), demands }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(super) fn redis(&self, port: u16) -> Vec<String> {
        let demands = if self.demands { "yes" } else { "no" };
        [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", self.file("server.pem")),
            ("--tls-key-file", self.file("server.key")),
            ("--tls-ca-cert-file", self.file("ca.pem")),
            ("--tls-auth-clients", demands.to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }

    /// Speaks TLS also with other servers.
    pub(super) fn redis_member(&self, port: u16) -> Vec<String> {
        let among_them = [
            ("--tls-replication", "yes".to_owned()),
            ("--tls-cluster", "yes".to_owned()),
            ("--tls-client-cert-file", self.file("client.pem")),
            ("--tls-client-key-file", self.file("client.key")),
        ];
        let among_them = among_them.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        self.redis(port).into_iter().chain(among_them).collect()
    }

    pub(super) fn redis_lines(&self, port: u16) -> String {
        let args = self.redis_member(port);
        let lines = args.as_chunks().0.iter().map(|[name, value]| {
            let name = name.trim_start_matches('-');
            format!("{name} {value}\n")
        });
        lines.collect()
    }

    pub(super) fn etcd(&self, plain: &str, port: u16) -> Vec<String> {
        let mut args = vec![
            format!("--listen-client-urls={plain},https://127.0.0.1:{port}"),
            format!("--cert-file={}", self.file("server.pem")),
            format!("--key-file={}", self.file("server.key")),
        ];
        if self.demands {
            args.push(format!("--trusted-ca-file={}", self.file("ca.pem")));
            args.push("--client-cert-auth".to_owned());
        }
        args
    }

    pub(super) fn zookeeper(&self, port: u16) -> String {
        let demands = if self.demands { "need" } else { "none" };
        format!(
            "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
             serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             ssl.keyStore.type=PEM\nssl.keyStore.location={}\nssl.trustStore.type=PEM\nssl.trustStore.location={}\n\
             ssl.clientAuth={demands}\nssl.hostnameVerification=false\n",
            self.file("server-both.pem"),
            self.file("ca.pem"),
        )
    }
}
