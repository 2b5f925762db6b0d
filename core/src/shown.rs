use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

/// The longest sentence, in bytes.
pub(crate) const SENTENCE: usize = 600;

const CUT: &str = "…";

/// Finds a control character, a line or paragraph separator, or a character that changes the text direction:
/// they act on a terminal or a log.
pub(crate) fn hidden(text: &str) -> Option<char> {
    text.chars().find(|&c| is_hidden(c))
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text with each [`hidden`] character as `\u{1b}`, and a final `…` if it is cut after `most`
/// bytes.
pub(crate) fn shown(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most && hidden(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut cut = 0;
    for c in text.chars() {
        if is_hidden(c) {
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
        if out.len() > most {
            out.truncate(cut);
            out.push_str(CUT);
            return Cow::Owned(out);
        }
        if out.len() <= most.saturating_sub(CUT.len()) {
            cut = out.len();
        }
    }
    Cow::Owned(out)
}

/// Returns the text in one line.
pub(crate) fn sentence(text: &str) -> String {
    // A server's error may be long.
    let mut end = text.len().min(4 * SENTENCE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let start = &text[..end];
    let lines: Vec<_> = start.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut line = lines.join("; ");
    if start.len() < text.len() {
        line.push_str(CUT);
    }
    shown(&line, SENTENCE).into_owned()
}

pub(crate) fn in_millis(length: Duration) -> Duration {
    Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_on_a_terminal_is_escaped() {
        for (text, expected) in [
            ("host:7:ab12 ü 🔒", "host:7:ab12 ü 🔒"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\0b\u{7f}\u{9b}", "a\\u{0}b\\u{7f}\\u{9b}"),
            ("gpj\u{202e}exe", "gpj\\u{202e}exe"),
            ("a\u{2028}b\u{2066}c\u{200f}", "a\\u{2028}b\\u{2066}c\\u{200f}"),
            ("two\nlines", "two\\u{a}lines"),
        ] {
            assert_eq!(shown(text, 100), expected);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shown("abcdef", 6), "abcdef");
        assert_eq!(shown("abcdefg", 6), "abc…");
        assert_eq!(shown("üüüü", 7), "üü…");
        assert_eq!(shown("ab\u{1b}", 5), "ab…");
    }

    #[test]
    fn a_sentence_is_one_line_and_short() {
        assert_eq!(
            sentence("Parse error at 1\r\nUnexpected `33`\n\n  Unexpected `60`\n"),
            "Parse error at 1; Unexpected `33`; Unexpected `60`"
        );
        let long = sentence(&"ü\u{1b}\n".repeat(300_000));
        assert!(long.len() <= SENTENCE && long.ends_with('…') && hidden(&long).is_none(), "{long}");
    }

    proptest! {
        #[test]
        fn nothing_shown_is_hidden_or_long(text in any::<String>(), most in 8_usize..40) {
            let once = shown(&text, most).into_owned();
            prop_assert!(hidden(&once).is_none() && once.len() <= most, "{once:?}");
            prop_assert_eq!(shown(&once, most), once.as_str());
        }
    }
}
