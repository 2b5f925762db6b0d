use latchwork_core::Result;

use super::call::Call;
use super::reply::{Fields, Reply};
use super::script::SELFTEST;

pub(crate) fn selftest(keys: [String; 3], inbox: &str) -> Call {
    Call::new(&SELFTEST, keys).arg(inbox)
}

/// The command that failed, and the server's error text.
pub(crate) fn selftested(reply: Reply) -> Result<Option<(String, String)>> {
    match reply {
        Reply::List(list) if list.is_empty() => Ok(None),
        reply => {
            let mut reply = Fields::of(reply)?;
            Ok(Some((reply.text()?, reply.text()?)))
        }
    }
}
