use super::{Bed, ignored, state};
use crate::config::{Config, MoveConfig};
use crate::decide::moving::{MovePhase, Side};
use crate::moving::operator::{MoveBlocker, MoveState};
use crate::registry::Stamped;

#[tokio::test(start_paused = true)]
async fn plan_shows_participants_outsiders_usage_and_blockers() {
    let bed = Bed::new();
    let member = bed.member("service").await;
    let half =
        Config { label: Some("half".to_owned()), ..bed.config.from.clone() }.as_participant("m", "half");
    let half = crate::connect(&bed.connectors(), &half).await.expect("connected");
    let (idle, early) = (bed.plain_on_old("idle").await, bed.plain_on_new("early").await);
    let (idle, early) = (idle.expect("connected"), early.expect("connected"));
    let hold = idle.mutex("a/1").expect("a good key").acquire().await.expect("free");
    let reads = idle.rwlock("r").expect("a good key").read().await.expect("free");
    let group = idle.group("g").expect("a good key");
    let member_of = group.join(b"x").await.expect("joined");
    let operator = bed.operator().await;
    let plan = operator.plan().await.expect("read");
    assert_eq!((&*plan.from, &*plan.to), ("memory://old?namespace=a", "memory://new?namespace=b"));
    let participants = plan.participants.iter();
    let participants: Vec<_> = participants.map(|of| (&*of.label, of.on_old, of.on_new, of.member)).collect();
    assert_eq!(participants, [("half", true, false, false), ("service", true, true, true)]);
    assert!(plan.participants.iter().all(|of| !of.host.is_empty() && !of.version.is_empty()));
    let outsiders: Vec<_> = plan.outsiders.iter().map(|of| (of.side, &*of.client.label)).collect();
    assert_eq!(outsiders, [(Side::Old, "idle"), (Side::New, "early")]);
    let in_use = plan.in_use.iter();
    let in_use: Vec<_> = in_use.map(|of| (of.kind, of.moves, &*of.keys[0], of.holders, of.waiters)).collect();
    assert_eq!(
        in_use,
        [("mutex", true, "a/1", 1, 0), ("rwlock", true, "r", 1, 0), ("group", false, "g", 1, 0)]
    );
    let [MoveBlocker::Outsiders(outside), MoveBlocker::Apart(apart)] = &plan.blockers[..] else {
        panic!("{:?}", plan.blockers)
    };
    assert_eq!((outside.len(), apart.len(), apart[0].lacks()), (2, 1, Some("not connected to the new side")));
    assert_eq!(plan.epochs_left, crate::Token::MAX_EPOCH);
    assert!(plan.promises.both.clean_try && plan.status.members == 1);
    let json = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(json["outsiders"][0]["client"]["label"], "idle");
    assert_eq!(json["blockers"][0]["next"], plan.blockers[0].next_step());
    hold.release().await.expect("released");
    reads.release().await.expect("released");
    drop(member_of);
    for client in [idle, early, half] {
        client.close().await.expect("closed");
    }
    let following = member.follows();
    operator.start(ignored).await.expect("nobody is outside");
    assert!(operator.plan().await.expect("read").blockers.is_empty());
    following.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_whose_tokens_have_no_room_does_not_begin() {
    let bed = Bed::new();
    let (one, operator) = (bed.member("one").await.follows(), bed.operator().await);
    let read = operator.old.stamped().await.expect("read");
    let last = crate::Token::MAX_EPOCH - 1;
    operator.old.write(Stamped { epoch: last, ..read }).await.expect("raised").expect("first");
    let plan = operator.plan().await.expect("read");
    assert_eq!((plan.blockers, plan.epochs_left), (vec![MoveBlocker::NoEpochs], 1));
    let error = operator.start(ignored).await.expect_err("no room");
    assert!(error.to_string().contains("epochs"), "{error}");
    one.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn two_spellings_of_one_place_are_refused() {
    let at = |url| Config::from_url(url).expect("a good URL");
    let config = MoveConfig::new(at("memory://old?namespace=a"), at("memory://old-too?namespace=a"), "m");
    let bed = Bed { config, ..Bed::new() };
    let operator = bed.operator().await;
    let blockers = operator.plan().await.expect("read").blockers;
    assert_eq!(blockers.first(), Some(&MoveBlocker::OnePlace), "{blockers:?}");
    let error = operator.run(ignored).await.expect_err("one place");
    assert!(error.to_string().contains("one namespace of one server"), "{error}");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, MovePhase::Old));
}
