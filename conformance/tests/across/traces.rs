use std::time::Duration;

use latchwork_conformance::log::{Text, enable_all_threads};
use latchwork_core::memory::Memory;
use latchwork_core::{Clock, Config};
use tracing_subscriber::fmt::format::FmtSpan;

#[tokio::test(start_paused = true)]
async fn a_hold_is_a_span_and_its_loss_is_logged_once() {
    let log = Text::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    enable_all_threads();
    let _listening = tracing::subscriber::set_default(subscriber);
    let store = Memory::new(Clock::tokio());
    let (coordinator, _) = store.connect(&Config::new("memory")).expect("connected");

    let kept = coordinator.mutex("kept").expect("a good key").acquire().await.expect("held");
    kept.release().await.expect("released");
    assert!(log.lines("lost before").is_empty());
    let lost = coordinator
        .mutex("lost")
        .expect("a good key")
        .acquire()
        .max_hold(Duration::from_secs(1))
        .await
        .expect("held");
    let token = lost.token().to_string();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(lost.release().await.expect_err("its end has come").lost_reason().is_some());
    drop(lost);
    let warned = log.lines("lost before its release");
    assert_eq!(warned.len(), 1, "{warned:?}");
    for word in ["WARN", "key=\"lost\"", &token, "its fixed end (max_hold) was reached"] {
        assert!(warned[0].contains(word), "{word} in {}", warned[0]);
    }
    let spans = log.lines("latchwork.hold");
    let ends: Vec<_> = spans.iter().filter(|line| line.contains("close")).collect();
    assert_eq!(ends.len(), 2, "{spans:?}");
    assert!(
        !ends[0].contains("lost=its") && ends[1].contains("lost=its fixed end (max_hold) was reached"),
        "{ends:?}"
    );
}
