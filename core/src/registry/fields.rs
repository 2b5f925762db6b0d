//! Records and stamps as text, `layout=1&version=0.1.0`. People can read it, and a version ignores fields
//! that it does not know.

use url::form_urlencoded;

/// The fields of a text, in its order, also unknown ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads any bytes. Text of another format has no known fields.
    pub(crate) fn read(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, name: &str, value: Option<String>) {
        let place = self.0.iter().position(|(field, _)| field == name);
        match (place, value) {
            (Some(place), Some(value)) => self.0[place].1 = value,
            (Some(place), None) => drop(self.0.remove(place)),
            (None, Some(value)) => self.0.push((name.to_owned(), value)),
            (None, None) => {}
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.set(name, Some(value.to_string()));
        self
    }

    pub(crate) fn into_others(self, known: &[&str]) -> impl Iterator<Item = (String, String)> {
        self.0.into_iter().filter(move |(name, _)| !known.contains(&name.as_str()))
    }

    pub(crate) fn text(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unknown_fields_stay_when_other_fields_change() {
        let mut fields = Fields::read(b"layout=1&moving=to+etcd%3A&version=0.1");
        fields.set("layout", Some("2".to_owned()));
        fields.set("version", None);
        assert_eq!(fields.with("next", 3).text(), "layout=2&moving=to+etcd%3A&next=3");
    }

    proptest! {
        #[test]
        fn any_fields_are_read_as_they_were_written(values in proptest::collection::vec(any::<String>(), 0..4)) {
            let fields = Fields(values.into_iter().map(|value| (format!("{value}="), value)).collect());
            prop_assert_eq!(Fields::read(fields.text().as_bytes()), fields);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in any::<Vec<u8>>()) {
            let fields = Fields::read(&bytes);
            prop_assert_eq!(Fields::read(fields.text().as_bytes()), fields);
        }
    }
}
