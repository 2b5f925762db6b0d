//! Arbitrary answers and foreign nodes cause no panic, and no second holder.

use latchwork_core::Claim::{self, Exclusive, Permits, Shared};
use latchwork_core::backend::decide::chain::{Standing, standing};
use latchwork_core::backend::{MAX_LABEL_BYTES, NodeId, QueueEntry, is_of_zookeeper};
use latchwork_core::{Kind, Moment};
use proptest::collection::{hash_set, vec};
use proptest::prelude::*;

use crate::layout::{
    Contender, Contenders, DataLayout, NodeData, admitted, as_reader, counter, downgraded, id_of,
    is_admitted, numbered, plain, prefix,
};
use crate::probe::{judge, read_state};
use crate::queue::{Birth, History, WrittenLimit};

const LIMIT: u32 = 3;

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => any::<i64>().prop_map(|number| number.to_string()),
        4 => (0i64..8).prop_map(|near| (near - (1 << 31)).to_string()),
        1 => (-8i64..8).prop_map(|near| (near + (1 << 31)).to_string()),
        2 => (-8i64..8).prop_map(|near| format!("{near:010}")),
        1 => "[+-]?[0-9]{0,24}",
    ]
}

fn foreign() -> impl Strategy<Value = String> {
    let marker = prop::sample::select(vec![
        "lock-",
        "__lock__",
        "__WRIT__",
        "__READ__",
        "__rlock__",
        "lease-",
        "latch-",
    ]);
    let start = prop_oneof![
        any::<String>(),
        any::<u32>().prop_map(|weight| format!("x-w{weight}-")),
        "[_a-z0-9é-]{0,40}",
    ];
    prop_oneof![
        1 => any::<String>(),
        5 => (start, marker, number()).prop_map(|(start, marker, number)| format!("{start}{marker}{number}")),
    ]
}

fn foreign_data() -> impl Strategy<Value = Vec<u8>> {
    "[\0 ad0-9]{0,4}(\0admitted|\0writer [0-9]{1,3} [0-9]|\0data [0-9]{1,2} .{0,12})"
        .prop_map(String::into_bytes)
}

fn ours(claim: impl Strategy<Value = Claim>) -> impl Strategy<Value = Vec<(Claim, i32)>> {
    let counters = hash_set(prop_oneof![3 => 0..8, 1 => (i32::MAX - 8)..i32::MAX], 1..8);
    (counters, vec(claim, 8)).prop_map(|(counters, claims)| claims.into_iter().zip(counters).collect())
}

fn kind_and_ours() -> impl Strategy<Value = (Kind, Vec<(Claim, i32)>)> {
    prop_oneof![
        ours(Just(Exclusive)).prop_map(|ours| (Kind::Mutex, ours)),
        ours(Just(Exclusive)).prop_map(|ours| (Kind::Election, ours)),
        ours(prop_oneof![Just(Exclusive), Just(Shared)]).prop_map(|ours| (Kind::RwLock, ours)),
        ours((1..=LIMIT).prop_map(Permits)).prop_map(|ours| (Kind::Semaphore, ours)),
    ]
}

fn may_share(holders: &[Claim]) -> bool {
    match holders {
        [Permits(_), ..] => holders.iter().map(|claim| claim.weight()).sum::<u32>() <= LIMIT,
        [_, _, ..] => holders.iter().all(|&claim| claim == Shared),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn foreign_children_never_admit_conflicting_holders(
        (kind, ours) in kind_and_ours(),
        mut foreign in vec(foreign(), 0..8),
        seen_from in any::<prop::sample::Index>(),
        turned_round in any::<bool>(),
    ) {
        let mut own: Vec<_> = ours
            .iter()
            .map(|&(claim, counter)| (claim, counter, numbered(&prefix(kind, NodeId::random(), claim), counter)))
            .collect();
        own.sort_by_key(|&(_, counter, _)| counter);
        let mut holders = Vec::new();
        for at in 0..own.len() {
            // Later nodes did not exist when this node listed.
            let mut children: Vec<_> = own[..=at].iter().map(|(_, _, name)| name.clone()).collect();
            let seen = if foreign.is_empty() { 0 } else { seen_from.index(foreign.len()) };
            children.extend_from_slice(&foreign[seen..]);
            if turned_round {
                children.reverse();
            }
            let (claim, _, name) = &own[at];
            let queue = match claim {
                Permits(_) => Contenders::read(kind, children.clone()),
                _ => Contenders::read_up_to(name, kind, children.clone()),
            };
            let position = queue.position(name).expect("the queue contains the own node");
            if let Standing::Admitted { .. } = standing(&queue.listed(|_| false), position, LIMIT) {
                holders.push(*claim);
            }
            let _ = queue.right_before(position);
            let next = foreign.len().min(1);
            foreign.rotate_left(next);
        }
        prop_assert!(may_share(&holders), "{kind:?}: {holders:?} of {own:?}, with foreign nodes {foreign:?}");
    }

    /// Its number must be a possible counter.
    #[test]
    fn contender_name_has_a_counter_of_zero_or_more(name in foreign()) {
        for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Election] {
            let contender = Contender::parse(kind, name.clone());
            let counter = counter(kind, &name);
            prop_assert_eq!(contender.is_some(), counter.is_some());
            prop_assert!(counter.is_none_or(|counter| counter >= 0), "{:?}", counter);
        }
        let _ = (id_of(&name), as_reader(&name));
    }

    #[test]
    fn contender_order_does_not_depend_on_the_listing_order(mut children in vec(foreign(), 0..24), by in 0usize..24) {
        for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Election] {
            let read = Contenders::read(kind, children.clone());
            let count = children.len();
            children.rotate_left(by % count.max(1));
            prop_assert_eq!(&read.0, &Contenders::read(kind, children.clone()).0);
        }
    }

    #[test]
    fn any_data_of_a_node_and_of_a_limit_are_read(data in vec(any::<u8>(), 0..64), numbers in any::<[i64; 3]>()) {
        let [czxid, mzxid, ctime] = numbers;
        for data in [data.clone(), [&data[..], b"\0admitted"].concat(), [&data[..], b"\0writer 18446744073709551616 -1"].concat()] {
            for layout in [DataLayout::Ours, DataLayout::Bare] {
                let read = NodeData::read(layout, &data, czxid, ctime);
                prop_assert!(read.label.chars().count() <= 2 * MAX_LABEL_BYTES && !read.label.contains(char::is_control));
            }
        }
        let _ = WrittenLimit::read(&data, mzxid);
    }

    #[test]
    fn data_read_back_with_any_label(
        label in "[^\0]{0,80}",
        data in prop_oneof![vec(any::<u8>(), 0..64), foreign_data()],
        sequence: u64,
        joined: i64,
    ) {
        let shown = QueueEntry::label_of(label.as_bytes());
        let read = |bytes: &[u8]| NodeData::read(DataLayout::Ours, bytes, 9, 90);
        let reader = read(&downgraded(&label, &data, sequence, joined));
        prop_assert_eq!((reader.sequence, reader.joined, reader.label.as_str()), (sequence, joined, shown.as_str()));
        prop_assert_eq!(&*reader.data, &*data);
        for (bytes, marked) in [(plain(DataLayout::Ours, &label, &data), false), (admitted(&label, &data), true)] {
            prop_assert_eq!(is_admitted(&bytes), marked);
            let read = read(&bytes);
            prop_assert_eq!((read.sequence, read.label.as_str(), &*read.data), (9, shown.as_str(), &*data));
        }
    }

    #[test]
    fn a_history_takes_any_births(births in vec((foreign(), any::<u64>(), any::<bool>()), 0..32)) {
        let (history, now) = (History::default(), Moment::PAST);
        for (name, sequence, far) in births {
            if far {
                history.far(Kind::Mutex, "q", &name);
            }
            if let Some(birth) = Birth::of(Kind::Mutex, &name, sequence) {
                history.made(Kind::Mutex, "q", birth);
                history.left(Kind::Mutex, "q", birth, now);
            }
            let _ = history.expected(Kind::Mutex, "q", true, now);
        }
    }

    #[test]
    fn any_answer_to_a_probe_is_read(
        start in prop::sample::select(vec!["", "Zookeeper version: ", "srvr is not executed", "This ZooKeeper instance", "-ERR "]),
        version in "[0-9.]{0,24}",
        zxid in "(0x)?[-+0-9a-f]{0,20}",
        rest in any::<String>(),
    ) {
        let answer = format!("{start}{version}{rest}\nZxid: {zxid}\nMode: leader\n");
        let judged = judge("h:1", &answer);
        prop_assert!(judged.is_ok() || is_of_zookeeper(answer.as_bytes()) || !start.starts_with("Zoo"));
        if let Some((_, last)) = read_state(&answer) {
            prop_assert_eq!(i64::from_str_radix(zxid.trim_start_matches("0x"), 16), Ok(last));
        }
        let _ = read_state(&rest);
    }
}
