use std::fmt;
use std::str::FromStr;

use latchwork::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Without a later order, the command gets SIGTERM at `warn`.
    Until {
        /// The command must be gone at this instant.
        end: Moment,
        warn: Moment,
    },
    Signal(i32),
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardReport {
    Started,
    Warned,
    Exited(i32),
    Signalled(i32),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Until { end, warn } => write!(f, "until {} {}", end.as_nanos(), warn.as_nanos()),
            Order::Signal(number) => write!(f, "signal {number}"),
            Order::Kill => f.write_str("kill"),
        }
    }
}

impl fmt::Display for GuardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuardReport::Started => f.write_str("started"),
            GuardReport::Warned => f.write_str("warned"),
            GuardReport::Exited(code) => write!(f, "exited {code}"),
            GuardReport::Signalled(number) => write!(f, "signalled {number}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Garbled;

impl FromStr for Order {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        let words: Vec<_> = line.split(' ').collect();
        let moment = |word: &str| word.parse().map(Moment::from_nanos).map_err(|_| Garbled);
        match words[..] {
            ["until", end, warn] => Ok(Order::Until { end: moment(end)?, warn: moment(warn)? }),
            ["signal", number] => number.parse().map(Order::Signal).map_err(|_| Garbled),
            ["kill"] => Ok(Order::Kill),
            _ => Err(Garbled),
        }
    }
}

impl FromStr for GuardReport {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("started", "") => Ok(GuardReport::Started),
            ("warned", "") => Ok(GuardReport::Warned),
            ("exited", code) => code.parse().map(GuardReport::Exited).map_err(|_| Garbled),
            ("signalled", number) => number.parse().map(GuardReport::Signalled).map_err(|_| Garbled),
            _ => Err(Garbled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_and_garbled_ones_are_refused() {
        let until = Order::Until { end: Moment::from_nanos(7), warn: Moment::NEVER };
        for order in [until, Order::Signal(15), Order::Kill] {
            assert_eq!(order.to_string().parse::<Order>().unwrap(), order);
        }
        for report in
            [GuardReport::Started, GuardReport::Warned, GuardReport::Exited(3), GuardReport::Signalled(9)]
        {
            assert_eq!(report.to_string().parse::<GuardReport>().unwrap(), report);
        }
        for garbled in ["", "until", "until 1", "until x 2", "signal", "kill now"] {
            assert!(garbled.parse::<Order>().is_err(), "{garbled:?}");
        }
    }
}
