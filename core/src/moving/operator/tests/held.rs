use std::time::Duration;

use super::{Bed, goes_to, ignored};
use crate::Token;
use crate::decide::moving::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use crate::error::ErrorKind;

#[tokio::test(start_paused = true)]
async fn one_hold_writes_a_value_in_each_phase_there_and_back() {
    let bed = Bed::new();
    let (one, operator) = (bed.participant("one").await, bed.operator().await);
    let (mutex, value) = (one.mutex("a").expect("a key"), one.shared_value("v").expect("a key"));
    let hold = mutex.acquire().await.expect("free");
    let mut last = None;
    for phase in [Old, BothByOld, BothByNew, New] {
        goes_to(&operator, phase).await;
        let version = value.write_while(&hold, phase.as_str()).await.expect("it holds");
        let read = value.read().await.expect("read").expect("written");
        assert_eq!((&*read.value, read.version), (phase.as_str().as_bytes(), version), "{phase}");
        assert!(Some(version) > last, "{version} behind {last:?}");
        last = Some(version);
    }
    hold.release().await.expect("released");
    for phase in [BothByNew, BothByOld, Old] {
        assert_eq!(operator.step_back(ignored).await.expect("a step"), Some(phase));
        let hold = mutex.acquire().await.expect("free");
        let back = format!("back to {phase}");
        let version = value.write_while(&hold, &back).await.expect("it holds");
        let read = value.read().await.expect("read").expect("written");
        assert_eq!((&*read.value, read.version), (back.as_bytes(), version));
        assert!(Some(version) > last, "{version} behind {last:?}");
        last = Some(version);
        hold.release().await.expect("released");
    }
    operator.run(ignored).await.expect("made");
    let hold = mutex.acquire().await.expect("free");
    value.write_while(&hold, "done").await.expect("it holds");
    let plain = bed.plain_on_new("plain").await.expect("it is in use");
    let read = plain.shared_value("v").expect("a key").read().await.expect("read").expect("written");
    assert_eq!(&*read.value, b"done");
    plain.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_under_a_hold_that_was_removed_in_any_phase() {
    for phase in [Old, BothByOld, BothByNew, New, Done] {
        let bed = Bed::new();
        let (one, other) = (bed.participant("one").await, bed.participant("two").await);
        goes_to(&bed.operator().await, phase).await;
        let hold = one.mutex("a").expect("a key").acquire().await.expect("free");
        let value = one.shared_value("v").expect("a key");
        value.write_while(&hold, "first").await.expect("it holds");
        let mutex = other.mutex("a").expect("a key");
        let number = mutex.queue().first(1).await.expect("listed")[0].sequence;
        assert!(mutex.force_release(number).await.expect("removed"));
        let error = value.write_while(&hold, "late").await.expect_err("it was removed");
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{phase}: {error}");
        let next = mutex.acquire().within(Duration::from_secs(60)).await.expect("free");
        assert!(next.token() > Token::new(0, 0).expect("fits"));
        other.shared_value("v").expect("a key").write_while(&next, "next").await.expect("it holds");
        value.write_while(&hold, "late").await.expect_err("it was removed");
        let read = value.read().await.expect("read").expect("written");
        assert_eq!(&*read.value, b"next", "{phase}");
    }
}
