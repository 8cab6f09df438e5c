//! Records as bytes, for those that a snapshot finds on their way.
//!
//! ```text
//! flags | partition i32 | timestamp i64 | key | value | header count | per header: key, 0 or 1 + value
//! ```
//! Of the first four only those that a flag announces are there. Lengths and counts are LEB128. There is no envelope:
//! whoever keeps the bytes knows their format version.

use bytes::Bytes;

use super::Record;

const PARTITION: u8 = 1;
const TIMESTAMP: u8 = 2;
const KEY: u8 = 4;
const VALUE: u8 = 8;

/// The least that a header takes.
const HEADER_BYTES: u64 = 2;

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// They end too early.
    #[error("the bytes end within a record")]
    End,
    /// A flag, a length or a mark has no meaning.
    #[error("this is not a record")]
    Foreign,
}

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let flag = |there: bool, flag: u8| if there { flag } else { 0 };
        to.push(
            flag(self.partition.is_some(), PARTITION)
                | flag(self.timestamp.is_some(), TIMESTAMP)
                | flag(self.key.is_some(), KEY)
                | flag(self.value.is_some(), VALUE),
        );
        to.extend(self.partition.iter().flat_map(|partition| partition.to_be_bytes()));
        to.extend(self.timestamp.iter().flat_map(|timestamp| timestamp.to_be_bytes()));
        for part in [&self.key, &self.value].into_iter().flatten() {
            put_bytes(to, part);
        }
        put_number(to, self.headers.len() as u64);
        for (key, value) in &self.headers {
            put_bytes(to, key);
            to.push(u8::from(value.is_some()));
            if let Some(value) = value {
                put_bytes(to, value);
            }
        }
    }

    /// Takes one record off the front of `from`. After an error `from` is where it was.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn decode(from: &mut &[u8]) -> Result<Self, RecordError> {
        let mut rest = *from;
        let record = Self::take(&mut rest)?;
        *from = rest;
        Ok(record)
    }

    fn take(from: &mut &[u8]) -> Result<Self, RecordError> {
        let [flags] = array(from)?;
        if flags >= VALUE << 1 {
            return Err(RecordError::Foreign);
        }
        let there = |flag: u8| flags & flag != 0;
        let partition = there(PARTITION).then(|| array(from).map(i32::from_be_bytes)).transpose()?;
        let timestamp = there(TIMESTAMP).then(|| array(from).map(i64::from_be_bytes)).transpose()?;
        let key = there(KEY).then(|| bytes(from)).transpose()?;
        let value = there(VALUE).then(|| bytes(from)).transpose()?;
        let count = number(from)?;
        // It must not promise more than can be there. Then room for just so many takes less memory than doubling does.
        if count > from.len() as u64 / HEADER_BYTES {
            return Err(RecordError::End);
        }
        let mut headers = Vec::with_capacity(usize::try_from(count).map_err(|_| RecordError::End)?);
        for _ in 0..count {
            headers.push(header(from)?);
        }
        Ok(Self { partition, key, value, headers, timestamp })
    }
}

fn header(from: &mut &[u8]) -> Result<(Bytes, Option<Bytes>), RecordError> {
    let key = bytes(from)?;
    let value = match array(from)? {
        [0] => None,
        [1] => Some(bytes(from)?),
        _ => return Err(RecordError::Foreign),
    };
    Ok((key, value))
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn array<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], RecordError> {
    let (taken, rest) = from.split_first_chunk().ok_or(RecordError::End)?;
    *from = rest;
    Ok(*taken)
}

fn bytes(from: &mut &[u8]) -> Result<Bytes, RecordError> {
    let count = usize::try_from(number(from)?).map_err(|_| RecordError::End)?;
    let (taken, rest) = from.split_at_checked(count).ok_or(RecordError::End)?;
    *from = rest;
    Ok(Bytes::copy_from_slice(taken))
}

/// The shortest form only, so that a record has one encoding.
fn number(from: &mut &[u8]) -> Result<u64, RecordError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = array(from)?;
        if shift == 63 && byte > 1 || byte == 0 && shift > 0 {
            return Err(RecordError::Foreign);
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(RecordError::Foreign)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part() -> impl Strategy<Value = Option<Bytes>> {
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from))
    }

    fn record() -> impl Strategy<Value = Record> {
        let header = (part(), part()).prop_map(|(key, value)| (key.unwrap_or_default(), value));
        let headers = proptest::collection::vec(header, 0..4);
        (any::<Option<i32>>(), part(), part(), headers, any::<Option<i64>>()).prop_map(
            |(partition, key, value, headers, timestamp)| Record {
                partition,
                key,
                value,
                headers,
                timestamp,
            },
        )
    }

    fn encoded(records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        bytes
    }

    proptest! {
        #[test]
        fn records_come_back_one_after_the_other(records in proptest::collection::vec(record(), 0..5)) {
            let bytes = encoded(&records);
            let mut rest = bytes.as_slice();
            for record in &records {
                prop_assert_eq!(&Record::decode(&mut rest).unwrap(), record);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn a_cut_record_is_an_error_and_takes_nothing(record in record(), cut: prop::sample::Index) {
            let bytes = encoded(&[record]);
            let short = &bytes[..cut.index(bytes.len())];
            let mut rest = short;
            prop_assert_eq!(Record::decode(&mut rest), Err(RecordError::End));
            prop_assert_eq!(rest, short);
        }

        #[test]
        fn what_decodes_has_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = bytes.as_slice();
            if let Ok(record) = Record::decode(&mut rest) {
                prop_assert_eq!(encoded(&[record]), &bytes[..bytes.len() - rest.len()]);
            }
        }
    }

    #[test]
    fn a_length_or_count_beyond_the_end_is_refused_before_anything_is_kept() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for flags in [KEY, VALUE, 0] {
            let bytes = [&[flags], huge.as_slice()].concat();
            assert_eq!(Record::decode(&mut bytes.as_slice()), Err(RecordError::End), "{flags}");
        }
    }

    #[test]
    fn unknown_flags_and_overlong_numbers_are_foreign() {
        let foreign: [&[u8]; 4] = [&[16, 0], &[0, 0x80, 0], &[0, 0x81, 0x80, 0], &[0, 1, 0, 2]];
        for mut bytes in foreign {
            assert_eq!(Record::decode(&mut bytes), Err(RecordError::Foreign), "{bytes:?}");
        }
    }

    #[test]
    fn a_borrowed_record_has_every_part() {
        let headers = vec![("a".into(), Some("b".into())), ("c".into(), None)];
        let record = Record { headers, timestamp: Some(7), ..Record::value("v").with_key("k") };
        let mut scratch = Vec::new();
        let borrowed = record.as_ref(&mut scratch);
        assert_eq!(
            (borrowed.key, borrowed.value, borrowed.timestamp),
            (Some(&b"k"[..]), Some(&b"v"[..]), Some(7))
        );
        let pairs: Vec<_> = borrowed.headers.iter().map(|h| (h.key, h.value)).collect();
        assert_eq!(pairs, [(&b"a"[..], Some(&b"b"[..])), (b"c", None)]);
    }
}
