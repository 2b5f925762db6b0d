use std::sync::{LazyLock, OnceLock};

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    text: LazyLock<String>,
    pub(crate) hash: OnceLock<String>,
}

impl Script {
    /// Without comments and indentation, which are half of the file.
    pub(crate) fn text(&'static self) -> &'static str {
        &self.text
    }
}

fn without_comments(code: &str) -> String {
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Each script with the files that come before its own. A short form (`one/`) runs before a script defines
/// the functions of the long one.
macro_rules! scripts {
    ($($script:ident = $name:literal after [$($file:literal),*];)*) => {
        $(pub(crate) static $script: Script = {
            const CODE: &str = concat!($(include_str!($file),)* include_str!(concat!($name, ".lua")));
            Script { name: $name, text: LazyLock::new(|| without_comments(CODE)), hash: OnceLock::new() }
        };)*

        pub(crate) static ALL: &[&Script] = &[$(&$script),*];
    };
}

scripts! {
    JOIN = "join" after ["one.lua", "one/join.lua", "queue.lua"];
    RENEW = "renew" after ["one.lua", "queue.lua"];
    LEAVE = "leave" after ["one.lua", "one/leave.lua", "queue.lua"];
    ABANDON = "abandon" after ["one.lua", "queue.lua"];
    LIST = "list" after ["one.lua", "one/list.lua", "queue.lua"];
    LIST_UNCHANGED = "list_unchanged" after ["one.lua", "one/list.lua", "queue.lua"];
    DOWNGRADE = "downgrade" after ["one.lua", "queue.lua"];
    SET_LIMIT = "set_limit" after ["one.lua", "queue.lua"];
    REVOKE = "revoke" after ["one.lua", "queue.lua"];
    WRITE_DATA = "write_data" after ["one.lua", "one/write_data.lua", "queue.lua"];
    LOOK = "look" after ["one.lua", "one/look.lua", "queue.lua"];
    POPULATED = "populated" after ["one.lua"];
    LIMIT = "limit" after ["one.lua"];
    READ_CELL = "read_cell" after ["one.lua", "cell.lua"];
    WRITE_CELL = "write_cell" after ["one.lua", "cell.lua"];
    COUNT = "count" after ["one.lua", "cell.lua"];
    LOOK_CELL = "look_cell" after ["one.lua", "cell.lua"];
    CELL_LIVES = "cell_lives" after ["one.lua", "cell.lua"];
    RENEW_CELLS = "renew_cells" after ["one.lua", "cell.lua"];
    END_CELLS = "end_cells" after ["one.lua", "cell.lua"];
    SELFTEST = "selftest" after [];
}

/// Every hold needs these, so a client loads them at connect.
pub(crate) static LOADED: [&Script; 3] = [&JOIN, &RENEW, &LEAVE];

#[cfg(test)]
mod tests {
    use latchwork_core::backend::decide::queue::TOMBSTONE;

    use super::LEAVE;

    #[test]
    fn scripts_and_clients_use_the_same_tombstone_time() {
        let stands = format!("local STAND = {} * 1000000\n", TOMBSTONE.as_secs());
        assert!(LEAVE.text().contains(&stands), "{stands}");
    }
}
