use std::io::{self, Read, Write};

use futures_util::future::try_join_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::{Kind, Options, Server, ServerError};

/// Starts one server of each kind for `latchwork-conformance serve`, prints lines such as `export
/// LATCHWORK_REDIS_URL='redis://127.0.0.1:40001'`, then `# ready`, and stops the servers when standard input
/// ends or at SIGINT or SIGTERM. Standard error gets the source of each server.
///
/// # Cancel safety
/// A cancelled call stops its servers. A container that is starting may remain, see [`Server::start`].
///
/// # Errors
/// If a server does not start. Then none remains.
pub async fn serve(kinds: &[Kind], options: Options) -> Result<(), ServerError> {
    let handler = |kind| signal(kind).map_err(ServerError::io("handling a signal"));
    let (mut interrupt, mut terminate) =
        (handler(SignalKind::interrupt())?, handler(SignalKind::terminate())?);
    let mut closed = input_closed()?;
    let started = try_join_all(kinds.iter().map(|kind| Server::start(*kind, options.clone())));
    let servers = tokio::select! {
        servers = started => servers?,
        _ = &mut closed => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    announce(&servers).map_err(ServerError::io("printing the servers' addresses"))?;
    tokio::select! {
        _ = closed => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn announce(servers: &[Server]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for server in servers {
        let kind = server.kind();
        eprintln!("{kind}: {} (from the {})", server.url(), server.origin());
        writeln!(out, "export {}='{}'", kind.url_variable(), server.url().replace('\'', "'\\''"))?;
        writeln!(out, "export {}={}", kind.clocks_variable(), server.clocks().name())?;
    }
    writeln!(out, "# ready")?;
    out.flush()
}

/// A read in the runtime would block its end.
fn input_closed() -> Result<oneshot::Receiver<()>, ServerError> {
    let (close, closed) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut input = io::stdin().lock();
            while input.read(&mut [0; 256]).is_ok_and(|length| length > 0) {}
            let _ = close.send(());
        })
        .map_err(ServerError::io("starting a thread"))?;
    Ok(closed)
}
