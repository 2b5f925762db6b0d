use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

pub(crate) fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    collect(&root().join(folder), &mut sources);
    sources
}

fn collect(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("read").path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("read");
            into.push((path, text));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    file: String,
    from: String,
    /// Empty: the place ends at the file's end.
    to: String,
    names: String,
}

pub(crate) fn place(file: &str, from: &str, to: &str, names: impl Into<String>) -> Place {
    Place { file: file.to_owned(), from: from.to_owned(), to: to.to_owned(), names: names.into() }
}

impl Place {
    fn part<'a>(&self, text: &'a str) -> &'a str {
        let Some(begin) = text.find(&self.from) else { panic!("{}: no {:?} any more", self.file, self.from) };
        let rest = &text[begin + self.from.len()..];
        let end = if self.to.is_empty() { None } else { rest.find(&self.to) };
        &rest[..end.unwrap_or(rest.len())]
    }

    fn is_filled_in(&self, text: &str) -> bool {
        self.part(text).contains(&self.names)
    }

    fn spoilt(&self, text: &str) -> String {
        let part = self.part(text);
        let begin = part.as_ptr() as usize - text.as_ptr() as usize;
        let (before, behind) = (&text[..begin], &text[begin + part.len()..]);
        format!("{before}{}{behind}", part.replace(&self.names, ""))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} is missing", self.file, self.names)?;
        if self.from.is_empty() { Ok(()) } else { write!(f, " behind {:?}", self.from) }
    }
}

pub(crate) fn assert_filled_in(places: &[Place]) {
    let forgotten: Vec<_> = places.iter().filter(|place| !place.is_filled_in(&read(&place.file))).collect();
    let lines: String = forgotten.iter().map(|place| format!("\n  {place}")).collect();
    assert!(forgotten.is_empty(), "forgotten:{lines}");
    for place in places {
        let spoilt = place.spoilt(&read(&place.file));
        assert!(!place.is_filled_in(&spoilt), "the test does not notice that this place is empty: {place}");
    }
}

pub(crate) fn assert_all_missing(places: &[Place]) {
    assert!(!places.is_empty());
    for place in places {
        assert!(!place.is_filled_in(&read(&place.file)), "not missed: {place}");
    }
}
