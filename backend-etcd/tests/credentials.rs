use std::time::Duration;

use crate::common::{
    as_root, at, config, login_config, metric, require_log_in, server, server_with_users, signed_tokens,
};
use latchwork_conformance::errors::fails;
use latchwork_conformance::servers::Options;
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::etcd_auth_testbed;
use latchwork_conformance::vault::Vault;
use latchwork_core::{Coordinator, ErrorKind, Result};

async fn use_a_lock(client: &Coordinator, key: &str) -> Result<()> {
    let hold = client.mutex(key)?.acquire().within(Duration::from_secs(10)).await?;
    hold.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_password_that_is_changed_under_way_is_healed_at_the_next_log_in() {
    let server = server_with_users(Options::new()).await;
    let vault = Vault::new("hunter2");
    let healed = at(&config(&server, "ttl=30s").with_credentials(vault.clone())).await.unwrap();
    let fixed = at(&login_config(&server, "app:hunter2", "ttl=30s")).await.unwrap();
    let hold = healed.mutex("a").unwrap().acquire().await.unwrap();
    as_root(&server, &["user", "delete", "app"]).await;
    as_root(&server, &["user", "add", "app:other"]).await;
    as_root(&server, &["user", "grant-role", "app", "locks"]).await;
    vault.change("other");
    use_a_lock(&healed, "b").await.unwrap();
    hold.release().await.unwrap();
    healed.close().await.unwrap();
    // Without a provider the client cannot recover.
    let error = fails(use_a_lock(&fixed, "c").await, ErrorKind::Forbidden, "the password has changed");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn auth_that_is_switched_on_under_a_running_client_is_met_by_a_provider() {
    let server = server().await;
    let provided = at(&config(&server, "ttl=30s").with_credentials(Vault::new("hunter2"))).await.unwrap();
    let anonymous = at(&config(&server, "ttl=30s")).await.unwrap();
    let hold = provided.mutex("a").unwrap().acquire().await.unwrap();
    require_log_in(&server).await;
    use_a_lock(&provided, "b").await.unwrap();
    assert!(hold.is_held());
    hold.release().await.unwrap();
    provided.close().await.unwrap();
    fails(use_a_lock(&anonymous, "c").await, ErrorKind::Forbidden, "the client has no login");
}

#[tokio::test]
async fn a_signed_token_that_runs_out_is_renewed() {
    let (_secret, signed) = signed_tokens("2s");
    a_token_that_runs_out_is_renewed(signed).await;
}

/// The token expires when it is unused for this time.
#[tokio::test]
async fn a_simple_token_that_runs_out_is_renewed() {
    a_token_that_runs_out_is_renewed(["--auth-token-ttl", "2"].map(str::to_owned)).await;
}

/// The client crate logs in again itself. `arguments`: tokens expire after 2 s.
async fn a_token_that_runs_out_is_renewed(arguments: [String; 2]) {
    const LOG_INS: &str = r#"grpc_server_started_total{grpc_method="Authenticate","#;
    let server = server_with_users(Options::new().args(arguments)).await;
    // Much longer than the wait: the first renewal would keep a simple token in use.
    let fixed = at(&login_config(&server, "app:hunter2", "ttl=60s")).await.unwrap();
    let provided = at(&config(&server, "ttl=60s").with_credentials(Vault::new("hunter2"))).await.unwrap();
    let holds = [
        fixed.mutex("a").unwrap().acquire().await.unwrap(),
        provided.mutex("b").unwrap().acquire().await.unwrap(),
    ];
    let before = metric(&server, LOG_INS).await;
    // No event reports that a token has expired.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for (client, key) in [(&fixed, "c"), (&provided, "d")] {
        use_a_lock(client, key).await.unwrap();
    }
    let log_ins = metric(&server, LOG_INS).await - before;
    assert!(log_ins >= 2, "{log_ins} log-ins of two clients");
    for hold in holds {
        assert!(hold.is_held());
        hold.release().await.unwrap();
    }
}

#[tokio::test]
async fn readwrite_on_the_namespace_is_enough_and_each_half_of_it_is_needed() {
    let server = server_with_users(Options::new()).await;
    for (role, right, prefix) in [
        ("reads", "read", "latchwork/"),
        ("writes", "write", "latchwork/"),
        ("other", "readwrite", "latchwork/mutex/"),
    ] {
        as_root(&server, &["role", "add", role]).await;
        as_root(&server, &["role", "grant-permission", role, "--prefix=true", right, prefix]).await;
        as_root(&server, &["user", "add", &format!("{role}:word")]).await;
        as_root(&server, &["user", "grant-role", role, role]).await;
        fails(at(&login_config(&server, &format!("{role}:word"), "")).await, ErrorKind::Forbidden, role);
    }
    let client = at(&login_config(&server, "app:hunter2", "")).await.unwrap();
    use_a_lock(&client, "a").await.unwrap();
    client.counter("a").unwrap().add(1).await.unwrap();
    let permit = client.semaphore("a", 2).unwrap().acquire(1).await.unwrap();
    permit.release().await.unwrap();
    client.close().await.unwrap();
}

/// Its clients have only the role of the documented commands.
#[tokio::test]
async fn a_testbed_of_a_narrower_role_has_no_clients() {
    for (right, enough) in [("readwrite", true), ("read", false)] {
        let commands = format!(
            "etcdctl role add locks\netcdctl role grant-permission locks --prefix=true {right} latchwork/\n\
             etcdctl user add app:word\netcdctl user grant-role app locks\n\
             etcdctl user add root:word\netcdctl user grant-role root root\netcdctl auth enable"
        );
        let testbed = etcd_auth_testbed(server().await, &commands).await.unwrap();
        let fixture = testbed.fixture().await.unwrap();
        match fixture.client(&fixture.config()).await {
            Ok(client) => client.coordinator.close().await.map(|()| assert!(enough, "{right}")).unwrap(),
            Err(error) => {
                assert!(!enough && error.kind() == ErrorKind::Forbidden, "{right}: {error}");
            }
        }
    }
}
