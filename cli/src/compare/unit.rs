use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unit {
    #[serde(rename = "us")]
    Micros,
    #[serde(rename = "ms")]
    Millis,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "1/s")]
    PerSecond,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "KiB")]
    Kibibytes,
    #[serde(rename = "% of a core")]
    Percent,
    #[serde(rename = "TTL")]
    Ttls,
    #[serde(rename = "")]
    Count,
    /// 1 for yes, 0 for no.
    #[serde(rename = "yes")]
    Yes,
}

impl Unit {
    pub(super) fn shown(self, figure: f64) -> String {
        match self {
            Unit::Micros if figure >= 1e6 => format!("{} s", digits(figure / 1e6)),
            Unit::Micros if figure >= 1e3 => format!("{} ms", digits(figure / 1e3)),
            Unit::Micros => format!("{} µs", digits(figure)),
            Unit::Millis => format!("{} ms", digits(figure)),
            Unit::Seconds => format!("{} s", digits(figure)),
            Unit::PerSecond => format!("{}/s", digits(figure)),
            Unit::Bytes => format!("{} B", digits(figure)),
            Unit::Kibibytes if figure >= 1024.0 => format!("{} MiB", digits(figure / 1024.0)),
            Unit::Kibibytes => format!("{} KiB", digits(figure)),
            Unit::Percent => format!("{} %", digits(figure)),
            Unit::Ttls => format!("{} TTL", digits(figure)),
            Unit::Count => digits(figure),
            Unit::Yes if figure >= 1.0 => "yes".to_owned(),
            Unit::Yes if figure <= 0.0 => "no".to_owned(),
            Unit::Yes => "sometimes".to_owned(),
        }
    }
}

/// Without trailing zeros.
pub(super) fn at_axis(shown: &str) -> String {
    let (number, unit) = shown.split_at(shown.find(' ').unwrap_or(shown.len()));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

/// Three significant digits.
fn digits(figure: f64) -> String {
    let size = figure.abs();
    if size < 0.0005 {
        return "0".to_owned();
    }
    let decimals = match size {
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{figure:.decimals$}");
    if size < 10_000.0 {
        return text;
    }
    let mut apart = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_fitting_unit() {
        for (unit, figure, shown) in [
            (Unit::Micros, 121.4, "121 µs"),
            (Unit::Micros, 1234.0, "1.23 ms"),
            (Unit::PerSecond, 123_456.0, "123,456/s"),
            (Unit::PerSecond, 9876.0, "9876/s"),
            (Unit::Kibibytes, 2048.0, "2.00 MiB"),
            (Unit::Yes, 1.0, "yes"),
            (Unit::Count, 0.0, "0"),
            (Unit::Ttls, 0.84, "0.840 TTL"),
        ] {
            assert_eq!(unit.shown(figure), shown);
        }
        assert_eq!(["10.0 ms", "100 µs", "0.50 ×"].map(at_axis), ["10 ms", "100 µs", "0.5 ×"]);
    }
}
