const HOST: &[u8] = b"127.0.0.1";
/// In an error text, as texts of an array, as text and number.
const BETWEEN: [&[u8]; 3] = [b":", b"\r\n$5\r\n", b"\r\n:"];
/// Lengths in the protocol must not change.
const DIGITS: usize = 5;

#[derive(Debug)]
pub(super) struct Readdress(Vec<(Vec<u8>, Vec<u8>)>);

impl Readdress {
    pub(super) fn new(ports: impl IntoIterator<Item = (u16, u16)>) -> Self {
        let digits = |port: u16| {
            let digits = port.to_string().into_bytes();
            assert_eq!(digits.len(), DIGITS, "a port of five digits, not {port}");
            digits
        };
        Self(ports.into_iter().map(|(named, instead)| (digits(named), digits(instead))).collect())
    }

    /// The first part of a split address stays in `cut_off` for the next chunk.
    pub(super) fn apply(&self, cut_off: &mut Vec<u8>, chunk: Vec<u8>) -> Vec<u8> {
        let mut bytes = std::mem::take(cut_off);
        bytes.extend(chunk);
        let mut at = 0;
        while let Some(found) = position(&bytes[at..], HOST) {
            at += found + HOST.len();
            let between = BETWEEN.iter().find(|between| bytes[at..].starts_with(between));
            let Some(from) = between.map(|between| at + between.len()) else { continue };
            if let Some(port) = bytes.get_mut(from..from + DIGITS)
                && let Some((_, instead)) = self.0.iter().find(|(named, _)| named == port)
            {
                port.copy_from_slice(instead);
            }
        }
        // The end of a line is the end of an answer, so the chunk is complete.
        if !bytes.ends_with(b"\r\n") {
            let longest = HOST.len() + BETWEEN.map(<[u8]>::len).into_iter().max().unwrap_or(0) + DIGITS;
            let from = bytes.len().saturating_sub(longest - 1);
            if let Some(begins) = (from..bytes.len()).find(|at| is_cut_off(&bytes[*at..])) {
                *cut_off = bytes.split_off(begins);
            }
        }
        bytes
    }
}

/// Whether this is only the first part of an address.
fn is_cut_off(end: &[u8]) -> bool {
    let Some(rest) = end.strip_prefix(HOST) else { return HOST.starts_with(end) };
    BETWEEN.iter().any(|between| match rest.strip_prefix(*between) {
        Some(digits) => digits.len() < DIGITS && digits.iter().all(u8::is_ascii_digit),
        None => between.starts_with(rest),
    })
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_replaced_however_the_answer_is_cut() {
        let readdress = Readdress::new([(12_345, 54_321), (11_111, 22_222)]);
        let answer: &[u8] = b"-MOVED 1 127.0.0.1:12345\r\n*2\r\n$9\r\n127.0.0.1\r\n$5\r\n11111\r\n\
            *2\r\n$9\r\n127.0.0.1\r\n:12345\r\n:12345\r\n$15\r\n127.0.0.1:33333\r\n";
        let expected: &[u8] = b"-MOVED 1 127.0.0.1:54321\r\n*2\r\n$9\r\n127.0.0.1\r\n$5\r\n22222\r\n\
            *2\r\n$9\r\n127.0.0.1\r\n:54321\r\n:12345\r\n$15\r\n127.0.0.1:33333\r\n";
        for cut in 0..answer.len() {
            // A part that ends with the end of a line looks complete.
            if answer[..cut].ends_with(b"127.0.0.1\r\n") || answer[..cut].ends_with(b"$5\r\n") {
                continue;
            }
            let mut cut_off = Vec::new();
            let mut passed = readdress.apply(&mut cut_off, answer[..cut].to_vec());
            passed.extend(readdress.apply(&mut cut_off, answer[cut..].to_vec()));
            assert_eq!(String::from_utf8_lossy(&passed), String::from_utf8_lossy(expected), "cut at {cut}");
            assert!(cut_off.is_empty());
        }
    }
}
