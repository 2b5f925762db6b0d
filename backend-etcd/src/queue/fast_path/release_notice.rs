use serde::{Deserialize, Serialize};

/// The first gets the notice, the others are named in it.
pub(super) const LISTED: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Successor {
    /// Without the queue's prefix.
    pub(super) name: String,
    pub(super) created: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReleaseNotice {
    /// The receiver's create revision.
    pub(super) to: u64,
    #[serde(rename = "word")]
    pub(super) signal: Signal,
    /// Incomplete, and some may have left.
    #[serde(rename = "behind")]
    pub(super) successors: Vec<Successor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Signal {
    Next,
    /// The predecessor was waiting or had lost its hold: list.
    Look,
}

impl ReleaseNotice {
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }

    pub(super) fn parse(written: &[u8]) -> Option<Self> {
        let mut notice: Self = serde_json::from_slice(written).ok()?;
        // The receiver passes them on.
        notice.successors.truncate(LISTED);
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_notice_reads_back_and_other_text_is_refused() {
        let successors = vec![Successor { name: "1f-x".to_owned(), created: 9 }];
        for signal in [Signal::Next, Signal::Look] {
            let notice = ReleaseNotice { to: 7, signal, successors: successors.clone() };
            let written = notice.encode();
            assert!((0..written.len()).all(|cut| ReleaseNotice::parse(&written[..cut]).is_none()));
            assert_eq!(ReleaseNotice::parse(&written), Some(notice));
        }
        let many =
            ReleaseNotice { to: 7, signal: Signal::Next, successors: vec![successors[0].clone(); 1000] };
        assert_eq!(ReleaseNotice::parse(&many.encode()).unwrap().successors.len(), LISTED);
        for written in [&b""[..], b"7", b"{}", b"{\"to\":-1,\"word\":\"next\",\"behind\":[]}", b"\xff"] {
            assert_eq!(ReleaseNotice::parse(written), None);
        }
    }

    #[test]
    fn a_notice_is_written_as_before() {
        let successors = vec![Successor { name: "1f-x".to_owned(), created: 9 }];
        let notice = ReleaseNotice { to: 7, signal: Signal::Next, successors };
        let written = r#"{"to":7,"word":"next","behind":[{"name":"1f-x","created":9}]}"#;
        assert_eq!(String::from_utf8(notice.encode()).unwrap(), written);
    }
}
