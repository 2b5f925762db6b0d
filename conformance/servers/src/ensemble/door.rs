//! A socket of the file system that leads to a port.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// A door in a server's folder. Dropping it closes it, and all that has come through it.
#[derive(Debug)]
pub(super) struct Door(AbortHandle);

impl Door {
    /// Opens a door at `path`, which leads to this address.
    ///
    /// # Errors
    /// When there is such a file, or its path is too long for a socket.
    pub(super) fn open(path: &Path, to: SocketAddr) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        Ok(Self(tokio::spawn(accept(listener, to)).abort_handle()))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(listener: UnixListener, to: SocketAddr) {
    // They end with this task.
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    open.spawn(relay(stream, to));
                }
                // A connection that broke before it was accepted, or a shortage of files, which only
                // time can mend.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
}

/// A connection that fails is closed, which is what both ends are to see.
async fn relay(mut stream: UnixStream, to: SocketAddr) -> io::Result<()> {
    let mut next = TcpStream::connect(to).await?;
    next.set_nodelay(true)?;
    copy_bidirectional(&mut stream, &mut next).await.map(drop)
}
