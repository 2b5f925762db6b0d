//! The log as text, of this library and of others, as a subscriber that formats writes it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a subscriber writes; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Text(Arc<Mutex<Vec<u8>>>);

impl Text {
    /// All up to now.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written()).into_owned()
    }

    /// The lines up to now that have these words.
    pub fn lines(&self, with: &str) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
    }

    fn written(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Text {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.written().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
