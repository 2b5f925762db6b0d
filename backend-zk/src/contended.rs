use std::collections::HashMap;

use parking_lot::Mutex;

/// After one refusal, this number of writes is expected to be refused.
const WRITES: u8 = 16;
const CELLS: usize = 1024;

/// Cells of which writes under a version were refused a short time ago. A refusal returns no value, so the
/// next writes also read, in the same trip.
#[derive(Debug, Default)]
pub(crate) struct Contended(Mutex<HashMap<String, u8>>);

impl Contended {
    pub(crate) fn expects_refusal(&self, cell: &str) -> bool {
        self.0.lock().contains_key(cell)
    }

    pub(crate) fn learn(&self, cell: &str, refused: bool) {
        let mut cells = self.0.lock();
        match (refused, cells.get_mut(cell)) {
            (true, Some(left)) => *left = WRITES,
            (true, None) => {
                if cells.len() >= CELLS {
                    cells.clear();
                }
                cells.insert(cell.to_owned(), WRITES);
            }
            (false, Some(left)) if *left > 1 => *left -= 1,
            (false, Some(_)) => drop(cells.remove(cell)),
            (false, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_expected_again_until_as_many_writes_were_made() {
        let contended = Contended::default();
        contended.learn("a", true);
        for _ in 0..WRITES {
            assert!(contended.expects_refusal("a") && !contended.expects_refusal("b"));
            contended.learn("a", false);
        }
        assert!(!contended.expects_refusal("a"));
        (0..5000).for_each(|cell| contended.learn(&cell.to_string(), true));
        assert!(contended.0.lock().len() <= CELLS && contended.expects_refusal("4999"));
    }
}
