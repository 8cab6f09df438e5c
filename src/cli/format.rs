//! Records as text, one per line: in for `pipe`, out for `cat`.
//!
//! - `lines`: the line without its end is the value, byte for byte; with a key separator, what stands before its first
//!   occurrence is the key, and a line without one has no key.
//! - `json`: one object per line, `{"key", "value", "headers", "partition", "timestamp"}`, every one of which may be
//!   missing. Strings or null; bytes that are not UTF-8 stand as base64 under `key_b64` and `value_b64`. Headers are a list
//!   of objects with the same four names, in order, or on the way in also one object `{name: value}`. `topic` and
//!   `offset` are told on the way out and passed over on the way in.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

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
    let value: Value = serde_json::from_slice(line).map_err(|e| BadLine(format!("no JSON: {e}")))?;
    let Value::Object(mut object) = value else { return bad("not a JSON object") };
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
    match object.keys().next() {
        Some(name) => bad(format!("unknown field `{name}`")),
        None => Ok(parsed),
    }
}

/// The bytes under `name` or, as base64, under `name_b64`.
fn take_bytes<'a>(object: &mut Map<String, Value>, name: &str) -> Result<Option<Cow<'a, [u8]>>, BadLine> {
    let encoded_name = format!("{name}_b64");
    match (object.remove(name), object.remove(&encoded_name)) {
        (Some(_), Some(_)) => bad(format!("both `{name}` and `{encoded_name}`")),
        (None | Some(Value::Null), None) | (None, Some(Value::Null)) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(Cow::Owned(text.into_bytes()))),
        (None, Some(Value::String(text))) => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
            Err(error) => bad(format!("`{encoded_name}` is no base64: {error}")),
        },
        (Some(_), None) => bad(format!("`{name}` is neither a string nor null")),
        (None, Some(_)) => bad(format!("`{encoded_name}` is neither a string nor null")),
    }
}

fn take_number(object: &mut Map<String, Value>, name: &str) -> Result<Option<i64>, BadLine> {
    match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => bad(format!("`{name}` is no whole number")),
        },
    }
}

type Headers<'a> = Vec<LineHeader<'a>>;

fn take_headers<'a>(object: &mut Map<String, Value>) -> Result<Headers<'a>, BadLine> {
    match object.remove("headers") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.into_iter().map(header).collect(),
        Some(Value::Object(map)) => map
            .into_iter()
            .map(|(name, value)| match value {
                Value::Null => Ok((Cow::Owned(name.into_bytes()), None)),
                Value::String(text) => {
                    Ok((Cow::Owned(name.into_bytes()), Some(Cow::Owned(text.into_bytes()))))
                }
                _ => bad(format!("header `{name}` is neither a string nor null")),
            })
            .collect(),
        Some(_) => bad("`headers` is neither a list nor an object"),
    }
}

fn header<'a>(header: Value) -> Result<LineHeader<'a>, BadLine> {
    let Value::Object(mut object) = header else { return bad("a header is no object") };
    let Some(key) = take_bytes(&mut object, "key")? else { return bad("a header has no key") };
    let value = take_bytes(&mut object, "value")?;
    match object.keys().next() {
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
