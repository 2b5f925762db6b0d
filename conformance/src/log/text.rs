use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The text of a formatting subscriber. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Text(Arc<Mutex<Vec<u8>>>);

impl Text {
    /// Returns all text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written()).into_owned()
    }

    /// Returns the lines that contain `with`.
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
