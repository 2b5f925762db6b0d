use std::fmt::Display;
use std::str::FromStr;

use latchwork_core::backend::decide::count::request::{CountOutcome, CountRequest, Decided};
use latchwork_core::backend::decide::count::{Change, NotThisCount};
use latchwork_core::{Result, TimeToIdle};

use super::call::Call;
use super::cell_lives::millis;
use super::reply::{Fields, Flags, Reply, malformed};
use super::script::COUNT;
use crate::layout::CellKey;

/// `nonce`: a number that no other write has.
pub(crate) fn change_count(
    cell: &CellKey,
    request: &CountRequest,
    nonce: u64,
    idle: Option<TimeToIdle>,
) -> Call {
    let call = Call::new(&COUNT, [cell]);
    let call = match request.change {
        Change::Add(number) => call.arg('a').arg(number).arg(""),
        Change::Swap { from, to } => call.arg('s').arg(from).arg(to),
        Change::Down(ones) => call.arg('d').arg(ones).arg(""),
    };
    call.arg(format_args!("{:016x}", request.operation.writer))
        .arg(request.operation.number)
        .arg(request.fence().number)
        .arg(or_empty(request.until()))
        .arg(u8::from(request.in_doubt))
        .arg(or_empty(request.initial))
        .arg(format_args!("{nonce:x}"))
        .arg(or_empty(idle.map(|idle| millis(idle.get()))))
}

fn or_empty(number: Option<impl Display>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

pub(crate) fn count_changed(
    reply: Reply,
    initial: Option<u32>,
) -> Result<(std::result::Result<Decided, NotThisCount>, Flags)> {
    let mut reply = Fields::of(reply)?;
    let (code, flags) = (reply.int()?, Flags(reply.int()?));
    let mut decided = |outcome: fn(&mut Fields) -> Result<CountOutcome>| {
        let writes = number(&reply.text()?)?;
        Ok(Ok(Decided { outcome: outcome(&mut reply)?, writes }))
    };
    let answer = match code {
        1 => decided(|reply| Ok(CountOutcome::Applied(number(&reply.text()?)?))),
        2 => decided(|_| Ok(CountOutcome::Refused)),
        3 => decided(|_| Ok(CountOutcome::Untold)),
        4 => {
            let with = Some(reply.text()?).filter(|with| !with.is_empty());
            let with = with.map(|with| number(&with)).transpose()?;
            Ok(Err(NotThisCount::Began { with, asked: initial }))
        }
        5 => Ok(Err(NotThisCount::Foreign)),
        _ => Err(malformed()),
    };
    Ok((answer?, flags))
}

fn number<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| malformed())
}
