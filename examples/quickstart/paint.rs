use std::io::IsTerminal;

#[derive(Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    pub(crate) fn for_stdout() -> Paint {
        Paint(
            std::io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        )
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
