use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::Config;
use crate::decide::moving::evidence::{MoveId, MoveVerdict};
use crate::decide::moving::obstacles::MemberSays;
use crate::decide::moving::values::WholeStage;
use crate::memory::Memory;
use crate::moving::known::{Known, Read};
use crate::moving::place::MovePlace;
use crate::moving::staged::Staged;

/// The first stage on an empty server.
async fn first_stage(id: MoveId) -> Staged {
    let config = Config::from_url("memory://old").expect("a good URL");
    let (backend, _link) = Memory::new(Clock::tokio()).client(&config).expect("memory");
    let place = MovePlace::of("a", "m").expect("a good name");
    let written = Staged::write(&*backend, &place, None, id, WholeStage::before(0), false).await;
    written.expect("memory").expect("the first")
}

/// A server that restarts empty uses versions again.
#[tokio::test(start_paused = true)]
async fn acknowledgement_of_a_stage_does_not_count_for_a_restored_one_of_the_same_version() {
    let (lost, restored) = (first_stage(MoveId::new(1)).await, first_stage(MoveId::new(2)).await);
    assert_eq!(lost.version, restored.version);
    let mut known = Known::new(watch::channel(None).0);
    let read = |staged: &Staged| {
        let verdict = Some(MoveVerdict::Follows);
        Read { staged: Some(staged.clone()), epoch: 0, verdict }
    };
    known.read(read(&lost), None);
    assert!(!known.has_acknowledged());
    known.acknowledges(lost.read_as());
    assert!(known.has_acknowledged());
    let acknowledged = Some(lost.version.number());
    assert_eq!(known.says(), (Some(lost.id), MemberSays { acknowledged, ..MemberSays::default() }));
    known.read(read(&restored), None);
    assert!(!known.has_acknowledged());
    assert_eq!(known.says(), (Some(restored.id), MemberSays::default()));
}
