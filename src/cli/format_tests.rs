use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::record::{Header, StoredRecord};

fn record(key: Option<&[u8]>, value: Option<&[u8]>, headers: Vec<Header>) -> ConsumerRecord {
    let bytes = |b: &[u8]| Bytes::copy_from_slice(b);
    let record =
        StoredRecord { offset: 7, timestamp: 1000, key: key.map(bytes), value: value.map(bytes), headers };
    ConsumerRecord { topic: "t".into(), partition: 2, record }
}

fn printed(format: &Format, record: &ConsumerRecord) -> String {
    let mut out = Vec::new();
    format.print(record, &mut out);
    String::from_utf8(out).unwrap()
}

fn lines(separator: Option<&str>) -> Format {
    Format::new(FormatName::Lines, separator).unwrap()
}

fn error(line: &str) -> String {
    Format::Json.parse_line(line.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_line_is_a_value_byte_for_byte() {
    let parsed = lines(None).parse_line(b"a\tb\xff\r").unwrap();
    assert_eq!((parsed.key, parsed.value.as_deref()), (None, Some(&b"a\tb\xff\r"[..])));
    assert_eq!(printed(&lines(None), &record(Some(b"k"), Some(b"v"), vec![])), "v\n");
    assert_eq!(printed(&lines(None), &record(None, None, vec![])), "\n");
}

#[test]
fn what_stands_before_the_first_separator_is_the_key() {
    let format = lines(Some("::"));
    for (line, key, value) in
        [("k::v::w", Some("k"), "v::w"), ("::v", Some(""), "v"), ("k:v", None, "k:v"), ("", None, "")]
    {
        let parsed = format.parse_line(line.as_bytes()).unwrap();
        assert_eq!(parsed.key.as_deref(), key.map(str::as_bytes), "{line}");
        assert_eq!(parsed.value.as_deref(), Some(value.as_bytes()), "{line}");
        let back = printed(&format, &record(parsed.key.as_deref(), parsed.value.as_deref(), vec![]));
        assert_eq!(back, format!("{line}\n"));
    }
}

#[test]
fn separators_without_a_meaning_are_refused() {
    assert!(Format::new(FormatName::Lines, Some("")).is_err());
    assert!(Format::new(FormatName::Json, Some(":")).is_err());
}

#[test]
fn an_object_is_printed_with_its_fields_in_order() {
    let headers = vec![
        Header { key: Bytes::from_static(b"h"), value: None },
        Header { key: Bytes::from_static(b"h"), value: Some(Bytes::from_static(b"\xff")) },
    ];
    assert_eq!(
        printed(&Format::Json, &record(None, Some("a\"é".as_bytes()), headers)),
        concat!(
            r#"{"key":null,"value":"a\"é","headers":[{"key":"h","value":null},{"key":"h","value_b64":"/w=="}],"#,
            r#""partition":2,"timestamp":1000,"topic":"t","offset":7}"#,
            "\n"
        )
    );
}

#[test]
fn every_field_may_be_missing_and_null_differs_from_empty() {
    assert_eq!(Format::Json.parse_line(b"{}").unwrap(), Parsed::default());
    let parsed =
        Format::Json.parse_line(br#"{"key":"","value":null,"partition":null,"timestamp":-5}"#).unwrap();
    assert_eq!((parsed.key.as_deref(), parsed.value, parsed.timestamp), (Some(&b""[..]), None, Some(-5)));
}

#[test]
fn headers_may_come_as_one_object() {
    let parsed = Format::Json.parse_line(br#"{"headers":{"a":"1","b":null}}"#).unwrap();
    let headers: Vec<_> = parsed.headers.iter().map(|(k, v)| (&**k, v.as_deref())).collect();
    assert_eq!(headers, [(&b"a"[..], Some(&b"1"[..])), (b"b", None)]);
}

#[test]
fn base64_stands_under_a_name_of_its_own_in_every_object() {
    let line = br#"{"headers":{"z_b64":"/w==","a":"1","n_b64":null,"_b64":""}}"#;
    let parsed = Format::Json.parse_line(line).unwrap();
    let headers: Vec<_> = parsed.headers.iter().map(|(k, v)| (&**k, v.as_deref())).collect();
    assert_eq!(
        headers,
        [(&b"z"[..], Some(&b"\xff"[..])), (b"a", Some(b"1")), (b"n", None), (b"", Some(b""))]
    );
    // A header that is called so itself goes through the list, as `cat` prints it.
    let named = Header { key: Bytes::from_static(b"z_b64"), value: Some(Bytes::from_static(b"/w==")) };
    let line = printed(&Format::Json, &record(None, None, vec![named]));
    let parsed = Format::Json.parse_line(line.trim_end().as_bytes()).unwrap();
    assert_eq!(parsed.headers, [(b"z_b64"[..].into(), Some(b"/w=="[..].into()))]);
}

#[test]
fn a_bad_line_says_what_is_wrong_with_it() {
    for (line, wrong) in [
        ("", "no JSON"),
        ("[1]", "not a JSON object"),
        (r#"{"id":1}"#, "unknown field `id`"),
        (r#"{"value":1}"#, "`value` is neither a string nor null"),
        (r#"{"value":"a","value_b64":"YQ=="}"#, "both `value` and `value_b64`"),
        (r#"{"key_b64":"*"}"#, "`key_b64` is no base64"),
        (r#"{"partition":-1}"#, "no partition number"),
        (r#"{"partition":1.5}"#, "no whole number"),
        (r#"{"headers":"a"}"#, "neither a list nor an object"),
        (r#"{"headers":[{"value":"a"}]}"#, "a header has no key"),
        (r#"{"headers":[{"key":"a","x":1}]}"#, "unknown field `x` in a header"),
        (r#"{"value":"a","value":"b"}"#, "the field `value` is there twice"),
        (r#"{"offset":1,"offset":1}"#, "the field `offset` is there twice"),
        (r#"{"headers":[{"key":"a","key":"b"}]}"#, "the field `key` is there twice"),
        (r#"{"headers":{"a":"1","a":"2"}}"#, "the field `a` is there twice"),
        (r#"{"headers":{"a_b64":"YQ==","a":"2"}}"#, "both `a` and `a_b64`"),
        (r#"{"headers":{"a":"2","a_b64":"YQ=="}}"#, "both `a` and `a_b64`"),
        (r#"{"headers":{"a_b64":"*"}}"#, "header `a_b64` is no base64"),
        (r#"{"headers":{"a":1}}"#, "header `a` is neither a string nor null"),
        (r#"{"timestamp":18446744073709551615}"#, "no whole number"),
        (r#"{"value":true}"#, "neither a string nor null"),
    ] {
        assert!(error(line).contains(wrong), "{line}: {}", error(line));
    }
}

/// Any name of a header, and often one that looks like something else.
fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![any::<Vec<u8>>(), "[ab]?(_b64|key|value|headers)?(_b64)?".prop_map(String::into_bytes)]
}

proptest! {
    #[test]
    fn what_is_printed_as_json_is_read_back(
        key in any::<Option<Vec<u8>>>(),
        value in any::<Option<Vec<u8>>>(),
        headers in proptest::collection::vec((name(), any::<Option<Vec<u8>>>()), 0..4),
    ) {
        let list = headers.iter().map(|(key, value)| Header {
            key: Bytes::copy_from_slice(key),
            value: value.as_deref().map(Bytes::copy_from_slice),
        });
        let line = printed(&Format::Json, &record(key.as_deref(), value.as_deref(), list.collect()));
        let parsed = Format::Json.parse_line(line.trim_end_matches('\n').as_bytes()).unwrap();
        prop_assert_eq!(parsed.key.as_deref(), key.as_deref());
        prop_assert_eq!(parsed.value.as_deref(), value.as_deref());
        prop_assert_eq!((parsed.partition, parsed.timestamp), (Some(2), Some(1000)));
        let back: Vec<_> =
            parsed.headers.into_iter().map(|(k, v)| (k.into_owned(), v.map(Cow::into_owned))).collect();
        prop_assert_eq!(back, headers);
    }

    #[test]
    fn no_line_panics(line in any::<Vec<u8>>()) {
        let _ = Format::Json.parse_line(&line);
        let _ = lines(Some("x")).parse_line(&line);
    }
}
