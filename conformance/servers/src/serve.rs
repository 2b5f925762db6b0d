//! Servers for a shell: `latchwork-conformance serve`.

use std::io::{self, Read, Write};

use futures_util::future::try_join_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::{Kind, Options, Server, ServerError};

/// Starts one server of each kind, prints what a shell needs to use them, and keeps them until
/// standard input ends, or an interrupt or a termination is asked for.
///
/// Standard output gets lines of the form `export LATCHWORK_REDIS_URL='redis://127.0.0.1:40001'`,
/// then the line `# ready`; standard error says where each server comes from.
///
/// # Cancel safety
/// Cancelled, it ends the servers that it started; a container that is just being started may stay,
/// see [`Server::start`].
///
/// # Errors
/// When a server cannot be had; then none is kept.
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

/// Tells when standard input ends. A thread of its own reads it, since a read in the runtime would
/// keep that from ending.
fn input_closed() -> Result<oneshot::Receiver<()>, ServerError> {
    let (close, closed) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut input = io::stdin().lock();
            while input.read(&mut [0; 256]).is_ok_and(|length| length > 0) {}
            // Nobody need be waiting any more.
            let _ = close.send(());
        })
        .map_err(ServerError::io("starting a thread"))?;
    Ok(closed)
}
