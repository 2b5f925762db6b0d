//! Every wait is for an event. To prove that something does not happen, a test waits for a later event on the
//! same path.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::echo::{Client, PATIENCE, connected, start};
use latchwork_servers::ClosedPort;
use latchwork_servers::proxy::{Direction, EventLost, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

#[tokio::test]
async fn bytes_pass_both_ways_and_an_end_is_passed_on() {
    let (_echo, proxy, mut client) = connected().await;
    client.says("hello").await;
    client.send("last words").await;
    client.0.shutdown().await.unwrap();
    client.receive("last words").await;
    client.is_closed().await;
    timeout(PATIENCE, proxy.wait_for_connections(0)).await.unwrap();
}

#[tokio::test]
async fn a_large_message_passes_whole() {
    let (_echo, _proxy, client) = connected().await;
    let sent: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    let (mut read, mut write) = client.0.into_split();
    let message = sent.clone();
    let writing = tokio::spawn(async move { write.write_all(&message).await.map(|()| write) });
    let mut got = vec![0; sent.len()];
    timeout(PATIENCE, read.read_exact(&mut got)).await.unwrap().unwrap();
    writing.await.unwrap().unwrap();
    assert!(got == sent, "bytes were changed or reordered");
}

#[tokio::test]
async fn cut_closes_all_and_refuses_new_ones_until_resume() {
    let (echo, proxy) = start().await;
    let mut clients = [Client::connect(&proxy).await, Client::connect(&proxy).await];
    for client in &mut clients {
        client.says("before").await;
    }
    assert_eq!(proxy.connections(), 2);
    proxy.cut();
    for client in &mut clients {
        client.is_closed().await;
    }
    Client::connect(&proxy).await.is_closed().await;
    assert_eq!(echo.connections.load(Ordering::SeqCst), 2, "a refused connection reached the server");
    proxy.resume();
    Client::connect(&proxy).await.says("after").await;
}

/// The link's task may process the cut or the held bytes first.
#[tokio::test]
async fn cut_discards_held_bytes_even_if_healed_at_once() {
    // Mostly the cut comes first.
    const ROUNDS: usize = 200;
    let (echo, proxy) = start().await;
    let mut beside = Client(TcpStream::connect(&echo.addr).await.unwrap());
    for _ in 0..ROUNDS {
        let mut client = Client::connect(&proxy).await;
        client.says(".").await;
        proxy.hold(Direction::ToServer);
        client.send("late").await;
        // The proxy reads the bytes.
        beside.says("x").await;
        proxy.cut();
        proxy.resume();
        client.is_closed().await;
        let mut client = Client::connect(&proxy).await;
        client.says("-").await;
        proxy.hold(Direction::ToClient);
        let mut answered = proxy.reply(|reply| reply == b"!");
        client.send("!").await;
        timeout(PATIENCE, answered.fired()).await.unwrap().unwrap();
        proxy.cut();
        proxy.resume();
        client.is_closed().await;
    }
    assert_eq!(echo.received(), ".x-!".repeat(ROUNDS));
}

#[tokio::test]
async fn sever_closes_open_connections_and_serves_new_ones() {
    let (_echo, proxy, mut old) = connected().await;
    old.says("before").await;
    proxy.sever();
    old.is_closed().await;
    Client::connect(&proxy).await.says("after").await;
}

#[tokio::test]
async fn refuse_closes_new_connections_and_serves_open_ones() {
    let (_echo, proxy, mut old) = connected().await;
    old.says("before").await;
    proxy.refuse();
    Client::connect(&proxy).await.is_closed().await;
    old.says("still here").await;
}

#[tokio::test]
async fn held_requests_reach_the_server_only_after_resume_and_in_order() {
    let (echo, proxy, mut client) = connected().await;
    client.says("0").await;
    proxy.hold(Direction::ToServer);
    client.send("1").await;
    // The reply proves that only one direction is held, and that time has passed.
    Client(TcpStream::connect(&echo.addr).await.unwrap()).says("x").await;
    client.send("2").await;
    assert_eq!(echo.received(), "0x");
    proxy.resume();
    client.receive("12").await;
    assert_eq!(echo.received(), "0x12");
}

#[tokio::test]
async fn held_replies_wait_while_requests_reach_the_server() {
    let (mut echo, proxy, mut client) = connected().await;
    client.says("0").await;
    proxy.hold(Direction::ToClient);
    let (mut answered, other) = (proxy.reply(|reply| reply == b"held"), proxy.reply(|reply| reply == b"x"));
    client.send("held").await;
    echo.has_received("held").await;
    timeout(PATIENCE, answered.fired()).await.unwrap().unwrap();
    assert!(!other.has_fired());
    let nothing = timeout(Duration::from_millis(50), client.0.read_u8()).await;
    assert!(nothing.is_err(), "a held reply came through: {nothing:?}");
    proxy.resume();
    client.receive("held").await;
}

#[tokio::test]
async fn a_new_connection_waits_while_held_and_is_forgotten_when_its_client_gives_up() {
    let (echo, proxy) = start().await;
    proxy.hold(Direction::ToServer);
    proxy.hold(Direction::ToClient);
    let mut patient = Client::connect(&proxy).await;
    patient.send("patient").await;
    let mut gone = Client::connect(&proxy).await;
    gone.send("gone").await;
    timeout(PATIENCE, proxy.wait_for_connections(2)).await.unwrap();
    assert_eq!(echo.connections.load(Ordering::SeqCst), 0);
    gone.0.shutdown().await.unwrap();
    drop(gone);
    Client(TcpStream::connect(&echo.addr).await.unwrap()).says("!").await;
    proxy.resume();
    patient.receive("patient").await;
    timeout(PATIENCE, proxy.wait_for_connections(1)).await.unwrap();
    assert_eq!(echo.received(), "!patient");
}

#[tokio::test]
async fn a_cut_ends_a_connection_that_is_held() {
    let (_echo, proxy, mut client) = connected().await;
    client.says("0").await;
    proxy.hold(Direction::ToClient);
    client.send("lost").await;
    proxy.cut();
    client.is_closed().await;
}

#[tokio::test]
async fn delay_keeps_order_and_can_be_taken_back() {
    let (_echo, proxy, mut client) = connected().await;
    let delay = Duration::from_millis(200);
    proxy.delay(Direction::ToClient, delay);
    let sent = Instant::now();
    client.says("one").await;
    assert!(sent.elapsed() >= delay, "the reply came after {:?}", sent.elapsed());
    proxy.delay(Direction::ToClient, Duration::from_secs(3600));
    let mut passed = proxy.next_request();
    client.send("two").await;
    timeout(PATIENCE, passed.fired()).await.unwrap().unwrap();
    proxy.delay(Direction::ToClient, Duration::ZERO);
    client.send("three").await;
    client.receive("twothree").await;
}

#[tokio::test]
async fn a_dropped_reply_was_acted_on_and_breaks_only_its_own_connection() {
    let (mut echo, proxy, mut other) = connected().await;
    let mut client = Client::connect(&proxy).await;
    client.says("before").await;
    let mut dropped = proxy.drop_reply_to(|request| request.starts_with(b"join"));
    other.says("not this one").await;
    client.says("nor this").await;
    assert!(!dropped.has_fired());
    client.send("join a").await;
    timeout(PATIENCE, dropped.fired()).await.unwrap().unwrap();
    client.is_closed().await;
    echo.has_received("join a").await;
    other.says("join b").await;
    Client::connect(&proxy).await.says("join c").await;
}

#[tokio::test]
async fn drop_next_reply_takes_any_request() {
    let (mut echo, proxy, mut client) = connected().await;
    let mut dropped = proxy.drop_next_reply();
    client.send("anything").await;
    client.is_closed().await;
    timeout(PATIENCE, dropped.fired()).await.unwrap().unwrap();
    echo.has_received("anything").await;
}

#[tokio::test]
async fn held_reply_arrives_after_resume_and_other_links_pass() {
    let (mut echo, proxy, mut other) = connected().await;
    let mut client = Client::connect(&proxy).await;
    let mut held = proxy.hold_reply_to(|request| request.starts_with(b"join"));
    client.send("join").await;
    timeout(PATIENCE, held.fired()).await.unwrap().unwrap();
    echo.has_received("join").await;
    client.send("-next").await;
    echo.has_received("-next").await;
    other.says("other").await;
    let nothing = timeout(Duration::from_millis(50), client.0.read_u8()).await;
    assert!(nothing.is_err(), "a held reply came through: {nothing:?}");
    proxy.resume();
    client.receive("join-next").await;
    client.says("and on").await;
}

#[tokio::test]
async fn a_parked_request_lands_late_after_its_client_has_gone() {
    let (echo, proxy, mut client) = connected().await;
    let mut parked = proxy.park_request(|request| request.starts_with(b"join"));
    client.says("before|").await;
    client.send("join|").await;
    timeout(PATIENCE, parked.caught()).await.unwrap().unwrap();
    client.is_closed().await;
    let mut again = Client::connect(&proxy).await;
    again.says("leave|").await;
    proxy.sever();
    again.is_closed().await;
    assert_eq!(echo.received(), "before|leave|");
    timeout(PATIENCE, parked.deliver()).await.unwrap().unwrap();
    assert_eq!(echo.received(), "before|leave|join|");
}

#[tokio::test]
async fn several_events_see_the_same_request() {
    let (_echo, proxy, mut client) = connected().await;
    let (mut one, mut two) = (proxy.next_request(), proxy.request(|request| request == b"x"));
    let mut held = proxy.hold_next_reply();
    client.send("x").await;
    for event in [&mut one, &mut two, &mut held] {
        timeout(PATIENCE, event.fired()).await.unwrap().unwrap();
    }
    proxy.resume();
    client.receive("x").await;
}

#[tokio::test]
async fn a_dropped_event_is_disarmed() {
    let (_echo, proxy, mut client) = connected().await;
    drop(proxy.drop_next_reply());
    client.says("safe").await;
    drop(proxy.park_request(|_| true));
    client.says("safe too").await;
}

#[tokio::test]
async fn an_event_that_cannot_come_any_more_says_so() {
    let (_echo, proxy) = start().await;
    let mut never = proxy.next_request();
    let mut client = Client::connect(&proxy).await;
    let mut dropped = proxy.drop_reply_to(|request| request == b"y");
    drop(never.fired());
    client.says("z").await;
    timeout(PATIENCE, never.fired()).await.unwrap().unwrap();
    drop(proxy);
    assert_eq!(timeout(PATIENCE, dropped.fired()).await.unwrap(), Err(EventLost));
}

#[tokio::test]
async fn dropping_the_proxy_closes_its_connections_and_its_port() {
    let (_echo, proxy) = start().await;
    let addr = proxy.addr();
    let mut client = Client::connect(&proxy).await;
    client.says("here").await;
    drop(proxy);
    client.is_closed().await;
    TcpStream::connect(addr).await.expect_err("the port is still open");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_looks_like_a_broken_connection() {
    let closed = ClosedPort::take().unwrap();
    let proxy = Proxy::start(closed.addr().to_string()).await.unwrap();
    Client::connect(&proxy).await.is_closed().await;
}

#[tokio::test]
async fn a_narrow_way_takes_its_time_and_is_wide_again_when_resumed() {
    let (mut echo, proxy, mut client) = connected().await;
    client.says("first").await;
    assert_eq!(proxy.asked(), 5);
    proxy.narrow(Direction::ToServer, Some(100));
    let began = Instant::now();
    client.send(&"x".repeat(50)).await;
    client.send("last").await;
    echo.has_received("last").await;
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    proxy.narrow(Direction::ToServer, Some(1));
    client.send("an hour's worth of it, all in all, would be as long as this: not so long").await;
    proxy.resume();
    echo.has_received("so long").await;
}
