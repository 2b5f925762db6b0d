use latchwork_conformance::errors::fails;
use latchwork_conformance::mistakes::Mistakes;
use latchwork_core::recipes::{Acquire, Acquired, Mutex, MutexGuard};
use latchwork_core::{Config, Coordinator, Error, ErrorKind, Result, connect};
use tokio::task::JoinHandle;

use super::{PATIENCE, soon, until};

pub async fn at(url: &str) -> Result<Coordinator> {
    let config = Config::from_url(url).expect("a good URL");
    soon(connect(&[latchwork_redis::connector()], &config)).await
}

pub async fn user(url: &str) -> Coordinator {
    at(url).await.unwrap_or_else(|error| panic!("{error}"))
}

pub async fn refused(url: &str) -> Error {
    at(url).await.expect_err("connected")
}

pub async fn refused_as(url: &str, kind: ErrorKind, words: &[&str]) {
    said(&fails(at(url).await, kind, url), words);
}

pub fn said(error: &Error, words: &[&str]) {
    let text = error.to_string();
    println!("{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is not in: {text}"));
}

pub async fn mistaken(guide: &mut Mistakes, mistake: &str, url: &str, words: &[&str]) {
    let error = refused(url).await;
    said(&error, words);
    guide.made(mistake, &error);
}

pub async fn held(client: &Coordinator, key: &str) -> MutexGuard {
    soon(client.mutex(key).unwrap().acquire()).await.unwrap_or_else(|error| panic!("{error}"))
}

pub async fn uses(client: &Coordinator, key: &str) {
    soon(held(client, key).await.release()).await.unwrap();
}

pub async fn confirmed(client: &Coordinator, key: &str, replicas: u32) -> MutexGuard {
    let mutex = client.mutex(key).unwrap();
    soon(mutex.acquire().min_replicas(replicas).within(PATIENCE)).await.unwrap()
}

pub async fn queued<T: Acquired + Send>(queue: &Mutex, acquire: Acquire<T>) -> JoinHandle<Result<T>> {
    let waiter = tokio::spawn(acquire);
    until(async || queue.queue().first(10).await.unwrap().len() == 2).await;
    waiter
}
