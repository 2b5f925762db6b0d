//! The texts of the scripts.

use std::sync::LazyLock;

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    text: LazyLock<String>,
}

impl Script {
    /// What the server gets: without comments and indentation, which are half of the file.
    pub(crate) fn text(&'static self) -> &'static str {
        &self.text
    }
}

fn without_comments(code: &str) -> String {
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A script with a `short` form runs that first, before it even defines the functions of the long
/// one.
macro_rules! script {
    ($name:literal) => {
        script!($name, concat!(include_str!("one.lua"), include_str!("queue.lua")))
    };
    ($name:literal, short) => {
        script!(
            $name,
            concat!(
                include_str!("one.lua"),
                include_str!(concat!("one/", $name, ".lua")),
                include_str!("queue.lua")
            )
        )
    };
    ($name:literal, cell) => {
        script!($name, concat!(include_str!("one.lua"), include_str!("cell.lua")))
    };
    ($name:literal, $before:expr) => {{
        const CODE: &str = concat!($before, include_str!(concat!($name, ".lua")));
        Script { name: $name, text: LazyLock::new(|| without_comments(CODE)) }
    }};
}

pub(crate) static JOIN: Script = script!("join", short);
pub(crate) static RENEW: Script = script!("renew");
pub(crate) static LEAVE: Script = script!("leave", short);
pub(crate) static ABANDON: Script = script!("abandon");
pub(crate) static LIST: Script = script!("list", short);
pub(crate) static DOWNGRADE: Script = script!("downgrade");
pub(crate) static SET_LIMIT: Script = script!("set_limit");
pub(crate) static REVOKE: Script = script!("revoke");
pub(crate) static WRITE_DATA: Script = script!("write_data", short);
pub(crate) static LOOK: Script = script!("look", short);
pub(crate) static POPULATED: Script = script!("populated", include_str!("one.lua"));
pub(crate) static LIMIT: Script = script!("limit", include_str!("one.lua"));
pub(crate) static READ_CELL: Script = script!("read_cell", cell);
pub(crate) static WRITE_CELL: Script = script!("write_cell", cell);
pub(crate) static COUNT: Script = script!("count", cell);
pub(crate) static LOOK_CELL: Script = script!("look_cell", cell);
pub(crate) static CELL_LIVES: Script = script!("cell_lives", cell);
pub(crate) static RENEW_CELLS: Script = script!("renew_cells", cell);
pub(crate) static END_CELLS: Script = script!("end_cells", cell);
pub(crate) static SELFTEST: Script = script!("selftest", "");

pub(crate) static ALL: [&Script; 20] = [
    &JOIN,
    &RENEW,
    &LEAVE,
    &ABANDON,
    &LIST,
    &DOWNGRADE,
    &SET_LIMIT,
    &REVOKE,
    &LIMIT,
    &READ_CELL,
    &WRITE_CELL,
    &COUNT,
    &SELFTEST,
    &WRITE_DATA,
    &LOOK,
    &POPULATED,
    &LOOK_CELL,
    &CELL_LIVES,
    &RENEW_CELLS,
    &END_CELLS,
];

/// The scripts of every hold. They are on the server before a client counts as connected.
pub(crate) static LOADED: [&Script; 3] = [&JOIN, &RENEW, &LEAVE];

#[cfg(test)]
mod tests {
    use latchwork_core::backend::decide::queue::TOMBSTONE;

    use super::LEAVE;

    #[test]
    fn scripts_and_clients_agree_on_how_long_a_tombstone_stands() {
        let stands = format!("local STAND = {} * 1000000\n", TOMBSTONE.as_secs());
        assert!(LEAVE.text().contains(&stands), "{stands}");
    }
}
