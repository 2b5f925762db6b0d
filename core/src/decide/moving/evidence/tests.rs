use super::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use super::*;

const ID: MoveId = MoveId(7);

fn read(phase: MovePhase, version: u64) -> StageRead {
    StageRead { id: ID, version, stage: Stage { phase, epoch: 0 }, values: phase.token().into() }
}

fn record(from: MovePhase, to: impl Into<Option<MovePhase>>, over: u64) -> MoveRecord {
    let to = to.into();
    MoveRecord { id: ID, from, to, values: to.unwrap_or(from).token().into(), over, epoch: 0 }
}

#[test]
fn a_missing_stage_is_judged_by_the_record() {
    let judged = |record| judge(Some(read(New, 9)), None, record);
    assert_eq!(judged(None), MoveVerdict::NoMove);
    assert_eq!(judged(Some(record(Old, None, 3))), MoveVerdict::NoMove, "given up");
    assert_eq!(judged(Some(record(BothByOld, Old, 3))), MoveVerdict::NoMove);
    assert_eq!(judged(Some(record(New, Done, 3))), MoveVerdict::Done);
    for (from, to) in [(Old, BothByOld), (BothByNew, BothByOld), (BothByNew, New)] {
        let found = judged(Some(record(from, to, 3)));
        assert_eq!(found, MoveVerdict::Stops(Contradiction::StageLost), "{from} {to}");
    }
}

#[test]
fn a_stage_is_followed_if_the_record_announces_it_or_its_next_change() {
    let judged = |stage, record| judge(None, Some(stage), Some(record));
    for (stage, record) in [
        (read(Old, 4), MoveRecord::prepared(ID, 0)),
        (read(Old, 4), record(Old, BothByOld, 4)),
        (read(BothByOld, 5), record(Old, BothByOld, 4)),
        (read(BothByOld, 9), record(BothByOld, BothByNew, 8)),
        (read(BothByOld, 6), record(BothByNew, BothByOld, 5)),
    ] {
        assert_eq!(judged(stage, record), MoveVerdict::Follows, "{stage:?} {record:?}");
    }
    for (stage, record, found) in [
        (read(BothByOld, 3), record(BothByOld, BothByNew, 4), Contradiction::StageWentBack),
        (read(BothByOld, 4), record(BothByNew, New, 4), Contradiction::StageWentBack),
        (read(New, 9), record(BothByOld, BothByNew, 4), Contradiction::RecordWentBack),
        (read(Old, 9), record(BothByNew, BothByOld, 4), Contradiction::RecordWentBack),
    ] {
        assert_eq!(judged(stage, record), MoveVerdict::Stops(found), "{stage:?} {record:?}");
    }
}

#[test]
fn only_the_first_phase_may_be_without_a_record_of_this_move() {
    let another = |record| MoveRecord { id: MoveId(8), ..record };
    for record in [None, Some(another(record(Old, None, 1))), Some(another(record(Old, Old, 1)))] {
        assert_eq!(judge(None, Some(read(Old, 4)), record), MoveVerdict::Awaits);
        for phase in [BothByOld, BothByNew, New, Done] {
            let found = judge(None, Some(read(phase, 4)), record);
            assert_eq!(found, MoveVerdict::Stops(Contradiction::RecordLost), "{phase}");
        }
    }
    for phase in [Old, New] {
        let found = judge(None, Some(read(phase, 4)), Some(another(record(BothByNew, New, 1))));
        assert_eq!(found, MoveVerdict::Stops(Contradiction::StageWentBack), "{phase}");
    }
    assert_eq!(judge(None, Some(read(Old, 4)), Some(record(Old, None, 4))), MoveVerdict::Awaits);
}

#[test]
fn a_stage_below_the_known_one_is_a_contradiction_and_done_is_final() {
    let records = Some(record(Old, BothByOld, 4));
    let known = |phase, version| Some(read(phase, version));
    let back = MoveVerdict::Stops(Contradiction::StageWentBack);
    assert_eq!(judge(known(BothByOld, 6), known(BothByOld, 5), records), back);
    assert_eq!(judge(known(BothByOld, 5), known(Old, 5), records), back);
    assert_eq!(judge(known(Old, 4), known(BothByOld, 5), records), MoveVerdict::Follows);
    assert_eq!(judge(known(Done, 6), None, None), MoveVerdict::Done);
    let repaired = StageRead { id: MoveId(8), ..read(BothByOld, 1) };
    let record = MoveRecord { id: MoveId(8), ..record(BothByOld, BothByOld, 0) };
    assert_eq!(judge(known(BothByNew, 6), Some(repaired), Some(record)), MoveVerdict::Follows);
}

#[test]
fn a_change_is_pending_until_the_stage_shows_it_or_is_written_again() {
    let change = record(Old, BothByOld, 4);
    assert!(change.is_pending(read(Old, 4)));
    assert!(!change.is_pending(read(Old, 5)) && !change.is_pending(read(BothByOld, 5)));
    assert!(!MoveRecord::prepared(ID, 0).is_pending(read(Old, 4)));
    assert!(record(Old, None, 4).is_pending(read(Old, 4)));
    let opened = record(BothByNew, BothByNew, 4);
    let frozen = |version| StageRead { values: ValuesAt::LeavingNew, ..read(BothByNew, version) };
    assert!(opened.is_pending(frozen(4)) && !opened.is_pending(frozen(5)));
    assert!(!opened.is_pending(read(BothByNew, 4)));
}

#[test]
fn a_stage_of_the_known_version_with_other_values_is_an_earlier_one() {
    let known = read(BothByNew, 6);
    let frozen = StageRead { values: ValuesAt::LeavingNew, ..known };
    let record = record(BothByNew, BothByNew, 5);
    let back = MoveVerdict::Stops(Contradiction::StageWentBack);
    assert_eq!(judge(Some(known), Some(frozen), Some(record)), back);
    assert_eq!(judge(Some(known), Some(known), Some(record)), MoveVerdict::Follows);
}

#[test]
fn an_identity_and_a_contradiction_are_read_as_they_were_written() {
    assert_eq!(MoveId::parse(&ID.to_string()), Some(ID));
    for text in ["", "7", "+0000000000000000000000000000007"] {
        assert_eq!(MoveId::parse(text), None, "{text}");
    }
    for found in Contradiction::ALL {
        assert_eq!(Contradiction::parse(found.as_str()), Some(found));
    }
}
