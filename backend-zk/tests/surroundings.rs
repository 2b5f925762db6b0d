use std::time::Duration;

use crate::common::{at, config, owner, server, started, stranger};
use latchwork_conformance::errors::fails;
use latchwork_conformance::mistakes::says;
use latchwork_conformance::servers::{Options, Server};
use latchwork_core::{Config, ErrorKind, Secret};
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

fn log_in(config: &mut Config, user: &str) {
    (config.user, config.password) = (Some(user.to_owned()), Some(Secret::new("hunter2")));
}

async fn with(lines: &[&str]) -> Server {
    started(Options::new().own().args(lines.iter().copied())).await
}

#[tokio::test]
async fn a_server_that_grants_more_is_believed() {
    let server = with(&["minSessionTimeout=12000", "maxSessionTimeout=20000"]).await;
    let mut config = config(server.addr());
    config.ttl = Duration::from_secs(4);
    let client = at(&config).await.unwrap();
    assert_eq!(client.lease().ttl(), Duration::from_secs(12));
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    let lease = client.lease();
    // The margin ends any earlier proof before this.
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    assert!(hold.is_held());
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_chroot_that_may_not_be_made_or_used_is_named() {
    let addr = server().await.addr();
    let mut config = config(addr);
    let root = format!("closed-{}", config.namespace);
    let mut rights = Acls::creator_all().to_vec();
    rights.push(Acl::new(Permission::READ, AuthId::anyone()));
    let mode = CreateMode::Persistent.with_acls(Acls::new(&rights));
    owner(addr).await.create(&format!("/{root}"), b"", &mode).await.unwrap();
    for login in [None, Some("stranger")] {
        if let Some(name) = login {
            log_in(&mut config, name);
        }
        for path in [root.clone(), format!("{root}/deeper/still")] {
            config.path = path;
            let error = fails(at(&config).await, ErrorKind::Forbidden, "the chroot is closed");
            says(&error, &["connect", &root, "ACL"]);
        }
    }
    let stranger = stranger(addr).await;
    assert_eq!(stranger.list_children(&format!("/{root}")).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_server_that_insists_on_a_login_says_so() {
    let server = with(&["enforce.auth.enabled=true", "enforce.auth.schemes=digest"]).await;
    let mut config = config(server.addr());
    says(&fails(at(&config).await, ErrorKind::Forbidden, "the client has no login"), &["connect", "log in"]);
    log_in(&mut config, "app");
    let client = at(&config).await.unwrap();
    client.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_queue_that_is_closed_under_way_is_named() {
    let server = server().await;
    let config = config(server.addr());
    let client = at(&config).await.unwrap();
    let mutex = client.mutex("a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let operator = stranger(server.addr()).await;
    let path = format!("/{}/mutex", config.namespace);
    let readers = [Acl::new(Permission::READ | Permission::ADMIN, AuthId::anyone())];
    operator.set_acl(&path, &readers, None).await.unwrap();
    let error =
        fails(client.mutex("b").unwrap().acquire().await, ErrorKind::Forbidden, "the directory is closed");
    assert_eq!(error.key(), Some("b"));
    says(&error, &["acquire", "ACL"]);
    operator.set_acl(&path, &Acls::anyone_all(), None).await.unwrap();
    client.mutex("b").unwrap().acquire().await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}
