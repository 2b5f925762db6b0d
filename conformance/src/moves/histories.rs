//! For each rule of the verdict, pairs of an accepted and a refused run.

use std::time::Duration;

use latchwork_core::Claim::{self, Exclusive, Permits, Shared};
use latchwork_core::Token;
use latchwork_core::backend::decide::moving::MovePhase;

use super::counted::{Added, Adds};
use super::grant::Grant;
use super::heard::Heard;
use super::keys::{KEYS, OWN};
use super::rule::{Broken, Rule};
use super::verdict::{Happening, Verdict, judge_steps};
use super::walk::Change;
use crate::child::SoakKind;
use crate::failover::noise;
use crate::hold_record::HoldRecord;

const MUTEX: usize = 0;
const PERMITS: usize = 6;
const RWLOCK: usize = 8;

const CHANGE: Change =
    Change { what: "a step forward", phase: MovePhase::BothByOld, begun: 100, written: 110, known: 120 };
const DEAD: Duration = Duration::from_nanos(50);
const STEP: Duration = Duration::from_nanos(10);

struct History {
    heard: Heard,
    change: Change,
    happenings: Vec<Happening>,
    away: Duration,
    total: i64,
}

impl History {
    fn sound() -> Self {
        let mut heard = Heard::default();
        for (key, (_, kind)) in KEYS.into_iter().enumerate() {
            let claim = if matches!(kind, SoakKind::Permits { .. }) { Permits(1) } else { Exclusive };
            heard.grants.extend([hold(key, claim, 1, 10, 20), hold(key, claim, 2, 140, 150)]);
        }
        heard.adds = adds(&[(0, 1, 1)], 0);
        let happenings = vec![Happening::of(&CHANGE, DEAD)];
        Self { heard, change: CHANGE, happenings, away: Duration::ZERO, total: 1 }
    }

    /// Token, start and end.
    fn mutex(holds: [(u64, u64, u64); 2]) -> Self {
        Self::holds(MUTEX, &holds.map(|(token, from, to)| (Exclusive, token, from, to)))
    }

    fn holds(key: usize, holds: &[(Claim, u64, u64, u64)]) -> Self {
        let mut history = Self::sound();
        history.heard.grants.retain(|grant| grant.held.key != key);
        let holds = holds.iter().map(|&(claim, token, from, to)| hold(key, claim, token, from, to));
        history.heard.grants.extend(holds);
        history
    }

    /// Call, answer and result.
    fn adds(confirmed: &[(u64, u64, i64)], in_doubt: usize, total: i64) -> Self {
        let mut history = Self::sound();
        (history.heard.adds, history.total) = (adds(confirmed, in_doubt), total);
        history
    }

    /// Other acquisitions took 5 ns.
    fn delayed(took: Duration, away: Duration) -> Self {
        let mut history = Self::sound();
        history.away = away;
        let steady = Grant { asked: 5, ..hold(OWN, Exclusive, 1, 10, 20) };
        let changing = Grant { asked: 100, ..hold(OWN, Exclusive, 2, 100 + nanos(took), 900 + nanos(took)) };
        history.heard.grants.extend([steady, changing]);
        history
    }

    fn granted_after(waited: Duration) -> Self {
        let from = 100 + nanos(waited);
        Self::mutex([(1, 10, 20), (2, from, from + 10)])
    }

    /// The step takes ten times its bound.
    fn killed_before_the_end(waited: Duration) -> Self {
        let mut history = Self::sound();
        history.change.begun = CHANGE.written - nanos(STEP * 10);
        let (what, begun) = ("1 killed at once".to_owned(), CHANGE.written - nanos(waited));
        history.happenings = vec![Happening { what, begun, over: begun, allowed: DEAD }];
        history
    }

    fn broken(&self) -> Vec<Rule> {
        let Self { heard, change, happenings, away, total } = self;
        let changes = &[*change];
        let mut broken = Verdict { name: "a history", heard, changes, happenings, away: *away }.broken();
        broken.extend(heard.adds.judge(*total).err());
        broken.extend(judge_steps(changes, happenings, STEP).err());
        let mut rules: Vec<_> = broken.into_iter().map(|Broken { rule, .. }| rule).collect();
        rules.dedup();
        rules
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("short")
}

fn hold(key: usize, claim: Claim, token: u64, from: u64, to: u64) -> Grant {
    let token = Some(Token::new(0, token).expect("in range"));
    Grant { asked: from.saturating_sub(5), held: HoldRecord { key, claim, token, from, to } }
}

fn adds(confirmed: &[(u64, u64, i64)], in_doubt: usize) -> Adds {
    let added = |&(asked, at, number): &(u64, u64, i64)| Added { asked, at, number };
    Adds { confirmed: confirmed.iter().map(added).collect(), in_doubt }
}

struct Pair {
    rule: Rule,
    accepted: History,
    refused: History,
}

fn pairs() -> Vec<Pair> {
    let nano = Duration::from_nanos(1);
    let pair = |rule, accepted, refused| Pair { rule, accepted, refused };
    let (mutex, holds, adds) = (History::mutex, History::holds, History::adds);
    let bound = DEAD + noise();
    let delay = Duration::from_nanos(5) + noise();
    let away = Duration::from_secs(1);
    let mut unseen = History::sound();
    unseen.happenings.clear();
    vec![
        pair(Rule::Alone, mutex([(1, 10, 140), (2, 140, 150)]), mutex([(1, 10, 141), (2, 140, 150)])),
        pair(
            Rule::Alone,
            holds(PERMITS, &[(Permits(2), 1, 10, 150), (Permits(1), 2, 140, 150)]),
            holds(PERMITS, &[(Permits(2), 1, 10, 150), (Permits(2), 2, 140, 150)]),
        ),
        pair(
            Rule::Alone,
            holds(RWLOCK, &[(Shared, 1, 10, 150), (Shared, 2, 140, 150)]),
            holds(RWLOCK, &[(Shared, 1, 10, 150), (Exclusive, 2, 140, 150)]),
        ),
        pair(Rule::Alone, mutex([(1, 10, 140), (2, 140, 140)]), mutex([(1, 10, 150), (2, 140, 140)])),
        pair(Rule::Order, mutex([(1, 10, 20), (2, 140, 150)]), mutex([(2, 10, 20), (1, 140, 150)])),
        // A downgraded writer keeps its token.
        pair(
            Rule::Order,
            holds(RWLOCK, &[(Exclusive, 1, 10, 20), (Shared, 1, 140, 150)]),
            holds(RWLOCK, &[(Exclusive, 1, 10, 20), (Exclusive, 1, 140, 150)]),
        ),
        pair(
            Rule::Order,
            holds(RWLOCK, &[(Shared, 2, 10, 20), (Shared, 1, 140, 150)]),
            holds(RWLOCK, &[(Shared, 2, 10, 20), (Exclusive, 1, 140, 150)]),
        ),
        // In one instant, only the log has their order.
        pair(Rule::Fence, mutex([(1, 140, 140), (2, 140, 140)]), mutex([(2, 140, 140), (1, 140, 140)])),
        pair(Rule::Again, mutex([(1, 10, 20), (2, 121, 130)]), mutex([(1, 10, 20), (2, 120, 130)])),
        pair(Rule::Bound, History::granted_after(bound), History::granted_after(bound + nano)),
        pair(Rule::Happened, History::sound(), unseen),
        pair(
            Rule::Delay,
            History::delayed(delay, Duration::ZERO),
            History::delayed(delay + nano, Duration::ZERO),
        ),
        pair(Rule::Delay, History::delayed(delay + away, away), History::delayed(delay + away + nano, away)),
        pair(Rule::Step, History::killed_before_the_end(STEP), History::killed_before_the_end(STEP + nano)),
        pair(Rule::Once, adds(&[(0, 1, 1), (2, 3, 2)], 0, 2), adds(&[(0, 1, 1), (2, 3, 1)], 0, 2)),
        // Adds at once may come in either order.
        pair(Rule::Forward, adds(&[(0, 9, 2), (1, 8, 1)], 0, 2), adds(&[(0, 1, 2), (2, 3, 1)], 0, 2)),
        // An add without an answer may count.
        pair(Rule::Total, adds(&[(0, 1, 1), (2, 3, 3)], 1, 3), adds(&[(0, 1, 1), (2, 3, 3)], 1, 4)),
        pair(Rule::Total, adds(&[(0, 1, 1), (2, 3, 2)], 1, 2), adds(&[(0, 1, 1), (2, 3, 2)], 1, 1)),
        pair(Rule::Added, adds(&[(0, 1, 1)], 2, 2), adds(&[], 3, 2)),
    ]
}

#[test]
fn verdict_accepts_and_refuses_by_each_rule() {
    assert_eq!(History::sound().broken(), []);
    for (number, Pair { rule, accepted, refused }) in pairs().into_iter().enumerate() {
        assert_eq!(accepted.broken(), [], "pair {number}: {rule:?}");
        assert_eq!(refused.broken(), [rule], "pair {number}");
    }
}

#[test]
fn each_rule_has_a_pair() {
    let pairs = pairs();
    let without: Vec<_> =
        Rule::ALL.iter().filter(|rule| pairs.iter().all(|pair| pair.rule != **rule)).collect();
    assert!(without.is_empty(), "{without:?}");
}
