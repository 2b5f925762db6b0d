//! No bytes cause a panic or an admission.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{LeaseWriter, NodeId, NodeWriter};
use latchwork_core::{Address, Clock, Kind, Moment};
use proptest::prelude::*;

use crate::driver::{command, info};
use crate::error;
use crate::layout::QueueKeys;
use crate::scripts::{self, Reply};
use crate::watch::{Attempt, Inbox};

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -10_i64..10,
        Just(i64::MIN),
        Just(i64::MAX),
        Just(1 << 53),
        Just(-(1 << 40)),
        Just(-2 - i64::from(u32::MAX)),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        Just(Reply::Nil),
        number().prop_map(Reply::Int),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Reply::Text),
        "[xsp]|[0-9]{1,20}|inf|nan|-5".prop_map(|text| Reply::Text(text.into_bytes())),
    ];
    leaf.prop_recursive(3, 40, 8, |inner| proptest::collection::vec(inner, 0..8).prop_map(Reply::List))
}

fn fields() -> impl Strategy<Value = Reply> {
    (proptest::collection::vec(number().prop_map(Reply::Int), 0..5), proptest::collection::vec(reply(), 0..4))
        .prop_map(|(numbers, others)| Reply::List(numbers.into_iter().chain(others).collect()))
}

fn waiting() -> (Inbox, Arc<Attempt>) {
    let clock = Clock::system();
    let inbox = Inbox::new(clock.clone(), "n:inbox:c".to_owned());
    let queue = QueueKeys::of(&Address::new("n", Kind::Mutex, "k").unwrap()).unwrap();
    let attempt = Attempt::new(queue, NodeId::from_bytes([7; 16]), false);
    inbox.register(&attempt);
    let lease = LeaseWriter::new(clock.clone(), Duration::from_secs(3600), clock.now());
    inbox.settle(&attempt, NodeWriter::new(lease, 5), false, Moment::NEVER);
    (inbox, attempt)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_reply_is_read_or_refused(reply in prop_oneof![reply(), fields()]) {
        // Each call must return.
        let _ = scripts::joined(reply.clone());
        let _ = scripts::renewed(reply.clone());
        let _ = scripts::was_done(reply.clone());
        let _ = scripts::stored_limit(reply.clone());
        let _ = scripts::listed(reply.clone(), true);
        let _ = scripts::looked(reply.clone());
        let _ = scripts::cell_looked(reply.clone());
        let _ = scripts::bools(reply.clone());
        let _ = scripts::cells_ended(reply.clone());
        let _ = scripts::lives_of_cells(reply.clone());
        let _ = command::scanned(reply.clone());
        let _ = scripts::selftested(reply);
    }

    #[test]
    fn no_message_without_the_secret_admits(
        words in proptest::collection::vec(prop_oneof![
            Just("07070707070707070707070707070707".to_owned()),
            Just("07070707-0707-0707-0707-070707070707".to_owned()),
            "5|5\\.|5\\.[0-9a-f]{1,17}|-5|[0-9]{1,25}|-[0-9]{1,25}(\\.[0-9a-f]{1,16})?|\\.|[ -~]{0,8}",
        ], 0..8),
        tail in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let (inbox, attempt) = waiting();
        let mut message = words.join(" ").into_bytes();
        inbox.deliver(&message);
        message.extend(tail);
        inbox.deliver(&message);
        prop_assert_eq!(attempt.admitted_at(), None);
    }

    #[test]
    fn any_text_about_a_server_is_judged(
        fields in proptest::collection::vec((
            prop_oneof![
                Just("redis_version"), Just("redis_mode"), Just("role"), Just("maxmemory"), Just("maxmemory_policy"),
                Just("run_id"), Just("cluster_enabled"), Just("master_host"),
            ],
            "[0-9.]{0,30}|noeviction|cluster|slave|master|[ -~]{0,20}|\\PC{0,10}",
        ), 0..10),
        strict in any::<bool>(),
    ) {
        let text: String = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        let _ = info::judge(Some(&text), strict, false);
        let _ = info::run_id(&text);
    }

    #[test]
    fn any_error_of_a_server_is_translated(text in "(ERR )?(Error running script \\(call to f_1\\): )?(@user_script: ?[0-9]{0,2}: )?-?(OUTOFRANGE )?\\[?(NOSCRIPT|READONLY|BUSY |MOVED )?\\PC{0,40}\\]?") {
        let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an error is a value");
        let failure = error::from_redis(value.extract_error().expect_err("an error"), true);
        prop_assert!(failure.answered || failure.redial);
    }
}
