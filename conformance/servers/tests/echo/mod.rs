use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_servers::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Echo {
    pub(crate) addr: String,
    received: watch::Receiver<Vec<u8>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Echo {
    pub(crate) async fn start() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let (sender, received) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let sender = Arc::clone(&sender);
                tokio::spawn(async move {
                    let mut buffer = [0; 1024];
                    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                        sender.send_modify(|all| all.extend(&buffer[..length]));
                        if stream.write_all(&buffer[..length]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Echo { addr, received, connections }
    }

    pub(crate) async fn has_received(&mut self, text: &str) {
        let seen = self.received.wait_for(|all| all.windows(text.len()).any(|part| part == text.as_bytes()));
        timeout(PATIENCE, seen).await.expect("the server did not receive it").unwrap();
    }

    pub(crate) fn received(&self) -> String {
        String::from_utf8(self.received.borrow().clone()).unwrap()
    }
}

pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) async fn connect(proxy: &Proxy) -> Client {
        Client(TcpStream::connect(proxy.addr()).await.unwrap())
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn receive(&mut self, text: &str) {
        let mut buffer = vec![0; text.len()];
        timeout(PATIENCE, self.0.read_exact(&mut buffer)).await.expect("no answer").unwrap();
        assert_eq!(String::from_utf8_lossy(&buffer), text);
    }

    pub(crate) async fn says(&mut self, text: &str) {
        self.send(text).await;
        self.receive(text).await;
    }

    pub(crate) async fn is_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = timeout(PATIENCE, self.0.read_to_end(&mut rest)).await.expect("the connection stays open");
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

pub(crate) async fn start() -> (Echo, Proxy) {
    let echo = Echo::start().await;
    let proxy = Proxy::start(echo.addr.clone()).await.unwrap();
    (echo, proxy)
}

pub(crate) async fn connected() -> (Echo, Proxy, Client) {
    let (echo, proxy) = start().await;
    let client = Client::connect(&proxy).await;
    (echo, proxy, client)
}
