//! Links in Markdown pages lead to existing files and headings. rustdoc checks links to items; web addresses are not followed.

use std::fs;
use std::path::Path;
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The anchors of the headings, as GitHub and rustdoc form them.
fn anchors(page: &str) -> Vec<String> {
    let (mut anchors, mut title) = (Vec::new(), None::<String>);
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => title = Some(String::new()),
            Event::Text(part) | Event::Code(part) => title.iter_mut().for_each(|title| title.push_str(&part)),
            Event::End(TagEnd::Heading(_)) => {
                let words = title.take().unwrap_or_default().to_lowercase().replace(' ', "-");
                let first = words.replace(|c: char| !c.is_alphanumeric() && !"-_".contains(c), "");
                let mut all = (0..).map(|n| if n == 0 { first.clone() } else { format!("{first}-{n}") });
                let free = all.find(|anchor| !anchors.contains(anchor));
                anchors.extend(free);
            }
            _ => {}
        }
    }
    anchors
}

fn is_good(file: &Path, page: &str, link: &str) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let has_anchor = |page: &str| anchors(page).iter().any(|known| known == anchor);
    let target = match path.strip_prefix("crate::guide::") {
        Some(name) => Path::new("src/guide").join(format!("{name}.md")),
        None if path.contains(':') => return true,
        None if path.is_empty() => return has_anchor(page),
        None => file.with_file_name(path),
    };
    if anchor.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return target.exists();
    }
    fs::read_to_string(&target).is_ok_and(|page| has_anchor(&page))
}

fn broken_links(file: &Path, page: &str) -> Vec<String> {
    let links = Parser::new_ext(page, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    });
    links
        .filter(|link| !is_good(file, page, link))
        .map(|link| format!("{}: {link}", file.display()))
        .collect()
}

#[test]
fn each_link_of_each_page_leads_to_a_file_and_a_heading() {
    let listed = Command::new("git").args(["ls-files", "*.md"]).output().expect("git lists the pages").stdout;
    let listed = String::from_utf8(listed).expect("text");
    let of = |file: &str| broken_links(Path::new(file), &fs::read_to_string(file).expect("a page"));
    let broken: Vec<_> = listed.lines().flat_map(of).collect();
    assert!(listed.lines().count() > 20 && broken.is_empty(), "broken links: {broken:#?}");
}

#[test]
fn control_a_missing_file_and_a_missing_heading_are_found() {
    let good = "# `A` title\n# A title\n[a](#a-title-1) [b](crate::Mutex) [c](crate::guide::errors) `[d](code.md)`\n";
    let bad = ["absent.md", "#absent", "#a-title-2", "crate::guide::none", "crate::guide::errors#absent"];
    let page = bad.iter().fold(good.to_owned(), |page, link| format!("{page}[bad]({link})\n"));
    assert_eq!(broken_links(Path::new("page.md"), &page), bad.map(|link| format!("page.md: {link}")));
}
