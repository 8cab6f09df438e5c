//! JSON as it stands in a line: fields in their order, and none twice.
//!
//! `serde_json`'s own value keeps the last of two fields of one name, and a record would lose a part without a word.

use std::fmt;

use serde_core::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool,
    /// `None` for one that is no whole number of 64 bits.
    Number(Option<i64>),
    String(String),
    List(Vec<Self>),
    Object(Fields),
}

/// The fields of an object, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fields(Vec<(String, Json)>);

impl Json {
    /// The value on a line.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line)
            .map_err(|e| if e.is_data() { e.to_string() } else { format!("no JSON: {e}") })
    }
}

impl Fields {
    /// Takes a field out.
    pub(super) fn remove(&mut self, name: &str) -> Option<Json> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// The names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl IntoIterator for Fields {
    type Item = (String, Json);
    type IntoIter = std::vec::IntoIter<(String, Json)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Seen)
    }
}

struct Seen;

impl<'de> Visitor<'de> for Seen {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(Some(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(i64::try_from(number).ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Number(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        let mut names = std::collections::HashSet::new();
        while let Some((name, value)) = object.next_entry::<String, Json>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("the field `{name}` is there twice")));
            }
            fields.push((name, value));
        }
        Ok(Json::Object(Fields(fields)))
    }
}
