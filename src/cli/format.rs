//! Records as text, one per line: in for `pipe`, out for `cat`.
//!
//! - `lines`: the line without its end is the value, byte for byte; with a key separator, what stands before its first
//!   occurrence is the key, and a line without one has no key.
//! - `json`: one object per line, `{"key", "value", "headers", "partition", "timestamp"}`, every one of which may be
//!   missing. Strings or null; bytes that are not UTF-8 stand as base64 under `key_b64` and `value_b64`. Headers are a list
//!   of objects with the same four names, in order, or on the way in also one object `{name: value}`, in which
//!   `name_b64` holds base64 as well. `topic` and `offset` are told on the way out and passed over on the way in. A
//!   field that is there twice makes a bad line.

use std::{borrow::Cow, collections::HashSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::object::{Fields, Json};
use crate::{checkpoint::pipeline::LineHeader, client::ConsumerRecord};

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FormatName {
    /// A line is a value
    Lines,
    /// A line is an object {key, value, headers, partition, timestamp}
    Json,
}

/// A format with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// `lines`.
    Lines {
        /// What stands between key and value, if keys are in the lines; not empty.
        key_separator: Option<Vec<u8>>,
    },
    /// `json`.
    Json,
}

/// A record from a line.
pub(super) type Parsed<'a> = crate::checkpoint::pipeline::LineRecord<'a>;

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadLine(String);

impl Format {
    /// # Errors
    /// A separator where it has no meaning, or an empty one, as a message for people.
    pub(super) fn new(name: FormatName, key_separator: Option<&str>) -> Result<Self, super::Usage> {
        match (name, key_separator) {
            (_, Some("")) => Err(super::Usage("--key-separator must not be empty".to_owned())),
            (FormatName::Json, Some(_)) => {
                Err(super::Usage("--key-separator belongs to --format lines".to_owned()))
            }
            (FormatName::Json, None) => Ok(Self::Json),
            (FormatName::Lines, separator) => Ok(Self::Lines { key_separator: separator.map(Into::into) }),
        }
    }

    /// The record of a line without its end.
    ///
    /// # Errors
    /// [`BadLine`] says what is wrong with it.
    pub(super) fn parse_line<'a>(&self, line: &'a [u8]) -> Result<Parsed<'a>, BadLine> {
        match self {
            Self::Json => parse_object(line),
            Self::Lines { key_separator } => {
                let (key, value) = match key_separator.as_deref().and_then(|s| split(line, s)) {
                    Some((key, value)) => (Some(key.into()), value),
                    None => (None, line),
                };
                Ok(Parsed { key, value: Some(value.into()), ..Parsed::default() })
            }
        }
    }

    /// Appends the line of a record, with its end.
    pub(super) fn print(&self, record: &ConsumerRecord, out: &mut Vec<u8>) {
        match self {
            Self::Json => print_object(record, out),
            Self::Lines { key_separator } => {
                if let Some(separator) = key_separator {
                    if let Some(key) = &record.record.key {
                        out.extend_from_slice(key);
                        out.extend_from_slice(separator);
                    }
                }
                out.extend_from_slice(record.record.value.as_deref().unwrap_or_default());
            }
        }
        out.push(b'\n');
    }
}

fn split<'a>(line: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = line.windows(separator.len()).position(|window| window == separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

fn bad<T>(what: impl Into<String>) -> Result<T, BadLine> {
    Err(BadLine(what.into()))
}

fn parse_object<'a>(line: &[u8]) -> Result<Parsed<'a>, BadLine> {
    let Json::Object(mut object) = Json::parse(line).map_err(BadLine)? else {
        return bad("not a JSON object");
    };
    let parsed = Parsed {
        key: take_bytes(&mut object, "key")?,
        value: take_bytes(&mut object, "value")?,
        headers: take_headers(&mut object)?,
        partition: match take_number(&mut object, "partition")?.map(i32::try_from) {
            None => None,
            Some(Ok(partition)) if partition >= 0 => Some(partition),
            Some(_) => return bad("`partition` is no partition number"),
        },
        timestamp: take_number(&mut object, "timestamp")?,
    };
    object.remove("topic");
    object.remove("offset");
    match object.names().next() {
        Some(name) => bad(format!("unknown field `{name}`")),
        None => Ok(parsed),
    }
}

/// What stands behind a name whose value is base64.
const ENCODED: &str = "_b64";

/// The bytes under `name` or, as base64, under `name_b64`.
fn take_bytes<'a>(object: &mut Fields, name: &str) -> Result<Option<Cow<'a, [u8]>>, BadLine> {
    let encoded_name = format!("{name}{ENCODED}");
    match (object.remove(name), object.remove(&encoded_name)) {
        (Some(_), Some(_)) => bad(format!("both `{name}` and `{encoded_name}`")),
        (None, None) => Ok(None),
        (Some(value), None) => text(name, value),
        (None, Some(value)) => decoded(&encoded_name, value),
    }
}

fn text<'a>(name: &str, value: Json) -> Result<Option<Cow<'a, [u8]>>, BadLine> {
    match value {
        Json::Null => Ok(None),
        Json::String(text) => Ok(Some(Cow::Owned(text.into_bytes()))),
        _ => bad(format!("`{name}` is neither a string nor null")),
    }
}

fn decoded<'a>(name: &str, value: Json) -> Result<Option<Cow<'a, [u8]>>, BadLine> {
    match value {
        Json::Null => Ok(None),
        Json::String(text) => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
            Err(error) => bad(format!("`{name}` is no base64: {error}")),
        },
        _ => bad(format!("`{name}` is neither a string nor null")),
    }
}

fn take_number(object: &mut Fields, name: &str) -> Result<Option<i64>, BadLine> {
    match object.remove(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Number(Some(number))) => Ok(Some(number)),
        Some(_) => bad(format!("`{name}` is no whole number")),
    }
}

type Headers<'a> = Vec<LineHeader<'a>>;

fn take_headers<'a>(object: &mut Fields) -> Result<Headers<'a>, BadLine> {
    match object.remove("headers") {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::List(list)) => list.into_iter().map(header).collect(),
        Some(Json::Object(map)) => named_headers(map),
        Some(_) => bad("`headers` is neither a list nor an object"),
    }
}

/// Headers as one object. Its names are those of the headers, so what is true of every field is true of them: a value
/// under `NAME_b64` is the base64 of header `NAME`. A header that is called so itself needs the list.
fn named_headers<'a>(map: Fields) -> Result<Headers<'a>, BadLine> {
    let names: HashSet<String> = map.names().map(str::to_owned).collect();
    let header = |(field, value): (String, Json)| {
        let (name, value) = match field.strip_suffix(ENCODED) {
            None => (field.as_str(), text(&field, value)),
            Some(name) if names.contains(name) => return bad(format!("both `{name}` and `{field}`")),
            Some(name) => (name, decoded(&field, value)),
        };
        let value = value.map_err(|BadLine(e)| BadLine(format!("header {e}")))?;
        Ok((Cow::Owned(name.as_bytes().to_vec()), value))
    };
    map.into_iter().map(header).collect()
}

fn header<'a>(header: Json) -> Result<LineHeader<'a>, BadLine> {
    let Json::Object(mut object) = header else { return bad("a header is no object") };
    let Some(key) = take_bytes(&mut object, "key")? else { return bad("a header has no key") };
    let value = take_bytes(&mut object, "value")?;
    match object.names().next() {
        Some(name) => bad(format!("unknown field `{name}` in a header")),
        None => Ok((key, value)),
    }
}

fn print_object(r: &ConsumerRecord, out: &mut Vec<u8>) {
    out.push(b'{');
    print_bytes("key", r.record.key.as_deref(), out);
    out.push(b',');
    print_bytes("value", r.record.value.as_deref(), out);
    out.extend_from_slice(b",\"headers\":[");
    for (at, header) in r.record.headers.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"{" } else { b",{" });
        print_bytes("key", Some(&header.key), out);
        out.push(b',');
        print_bytes("value", header.value.as_deref(), out);
        out.push(b'}');
    }
    let timestamp = match r.record.timestamp {
        -1 => Value::Null,
        ms => ms.into(),
    };
    let (partition, offset, topic) = (r.partition, r.record.offset, Value::from(&*r.topic));
    let rest = format!(
        "],\"partition\":{partition},\"timestamp\":{timestamp},\"topic\":{topic},\"offset\":{offset}}}"
    );
    out.extend_from_slice(rest.as_bytes());
}

fn print_bytes(name: &str, bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    let (suffix, value) = match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => ("", Value::Null),
        Some((_, Ok(text))) => ("", Value::from(text)),
        Some((bytes, Err(_))) => ("_b64", Value::from(STANDARD.encode(bytes))),
    };
    out.extend_from_slice(format!("\"{name}{suffix}\":{value}").as_bytes());
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
