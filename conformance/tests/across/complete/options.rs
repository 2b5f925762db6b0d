use crate::connectors;

use super::places::{Place, assert_all_missing, assert_filled_in, place, read};

/// Fields with a separate part or form in a URL are not options after the `?`.
const PARTS_OF_A_URL: [&str; 8] =
    ["backend", "hosts", "path", "user", "password", "tls", "options", "moving"];

fn fields() -> Vec<String> {
    let text = read("core/src/config/fields.rs");
    let (_, rest) = text.split_once("pub struct Config {").expect("it is declared there");
    let (body, _) = rest.split_once("\n}").expect("it ends");
    let fields = body.lines().filter_map(|line| line.strip_prefix("    pub ")?.split_once(':'));
    fields.map(|(name, _)| name.to_owned()).collect()
}

fn places(field: &str) -> Vec<Place> {
    let mut places =
        vec![place("core/src/config/file.rs", "struct Table {", "\n}", format!("\n    {field}: "))];
    if !PARTS_OF_A_URL.contains(&field) {
        let quoted = format!("\"{field}\"");
        places.extend([
            place("core/src/config/options.rs", "\npub(super) const OPTIONS", ";\n", quoted.as_str()),
            place("core/src/config/shown.rs", "for option in OPTIONS", "new => panic!", quoted.as_str()),
            place("core/src/config/options.rs", "fn set(&mut self", "\n    }\n", format!("{quoted} =>")),
            place("core/src/config/url.rs", "/// Reads `scheme://", "pub fn from_url", format!("`{field}`")),
            place("src/guide/connecting.md", "# URL options", "\n# ", format!("\n| `{field}")),
        ]);
    }
    places
}

#[test]
fn every_option_is_read_from_urls_and_files_and_is_in_the_guide() {
    let fields = fields();
    assert!(PARTS_OF_A_URL.iter().all(|part| fields.iter().any(|field| field == part)), "{fields:?}");
    for field in fields {
        assert_filled_in(&places(&field));
    }
}

#[test]
fn options_of_backends_are_in_the_guide() {
    let in_schemes = ["cluster", "sentinel_service"];
    let connectors = connectors();
    let options = connectors.iter().flat_map(|connector| connector.options());
    for option in options.filter(|option| !in_schemes.contains(option)) {
        assert_filled_in(&[place(
            "src/guide/connecting.md",
            "# URL options",
            "\n# ",
            format!("\n| `{option}"),
        )]);
    }
}

#[test]
fn an_option_that_is_only_a_field_is_missed_in_all_places() {
    assert_all_missing(&places("retries"));
}
