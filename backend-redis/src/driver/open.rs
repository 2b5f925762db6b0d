use std::time::Duration;

use latchwork_core::Credentials;
use latchwork_core::backend::Transport;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::bounded::BoundedStream;
use crate::config::Host;

const KEEPALIVE: Duration = Duration::from_secs(30);

pub(super) fn login(given: Option<Credentials>, database: i64) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(database);
    if let Some(given) = given {
        if let Some(user) = given.user {
            login = login.set_username(user);
        }
        login = login.set_password(given.password.expose());
    }
    login
}

pub(super) fn within(bound: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(bound)).set_response_timeout(Some(bound))
}

pub(super) async fn connect(
    host: &Host,
    login: &RedisConnectionInfo,
    transport: &Transport,
    config: AsyncConnectionConfig,
) -> redis::RedisResult<MultiplexedConnection> {
    #[cfg(test)]
    if let Some(stream) = super::tests::dial(host) {
        return over(stream?, login, config).await;
    }
    let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
    stream.set_nodelay(true)?;
    // A middlebox must not drop a connection that is silent for minutes, as with a long TTL, and the client
    // must notice a drop.
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 6);
    SockRef::from(&stream).set_tcp_keepalive(&probes)?;
    over(transport.secure(stream, &host.name).await?, login, config).await
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    login: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> redis::RedisResult<MultiplexedConnection> {
    let (connection, work) =
        MultiplexedConnection::new_with_config(login, BoundedStream::new(stream), config).await?;
    // Ends with the connection's last handle.
    tokio::spawn(work);
    Ok(connection)
}
