//! Bytes of what sources and inboxes add to a checkpoint.

use bytes::Bytes;

use crate::{
    proto::sealed::{Fields, Seal, StateError},
    record::Record,
    source::{InputPosition, SplitState},
};

const SPLITS: Seal = Seal { what: "source state", magic: *b"K2PO", newest: 1 };
const RECORDS: Seal = Seal { what: "records in flight", magic: *b"K2PF", newest: 1 };

pub(super) fn splits_to_bytes(splits: &[SplitState]) -> Vec<u8> {
    let split = |fields: Fields, split: &SplitState| fields.text(&split.split).bytes(&split.state);
    SPLITS.seal(Fields::default().list(splits, split))
}

/// The splits of kept bytes. A job that pipes lines kept a position alone in earlier releases.
pub(super) fn splits_from_bytes(bytes: &[u8]) -> Result<Vec<SplitState>, StateError> {
    match InputPosition::from_bytes(bytes) {
        Ok(position) => return Ok(vec![position.to_split()]),
        Err(StateError::Foreign { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut fields = SPLITS.open(bytes)?;
    let splits = fields.list(|fields| {
        let split = fields.text()?;
        Ok(SplitState { split, state: Bytes::copy_from_slice(fields.bytes()?) })
    })?;
    fields.finish(splits)
}

/// The records of each input; nothing if there are none.
pub(super) fn to_bytes(captured: &[(usize, Vec<Record>)]) -> Bytes {
    if captured.is_empty() {
        return Bytes::new();
    }
    let mut encoded = Vec::new();
    let fields = Fields::default().list(captured, |fields, (input, records)| {
        encoded.clear();
        records.iter().for_each(|record| record.encode(&mut encoded));
        fields.count(*input).bytes(&encoded)
    });
    RECORDS.seal(fields).into()
}

pub(super) fn from_bytes(bytes: &[u8]) -> Result<Vec<(usize, Vec<Record>)>, StateError> {
    let mut fields = RECORDS.open(bytes)?;
    let inputs = fields.list(|fields| {
        let input = usize::try_from(fields.u64()?).unwrap_or(usize::MAX);
        let mut encoded = fields.bytes()?;
        let mut records = Vec::new();
        while !encoded.is_empty() {
            match Record::decode(&mut encoded) {
                Ok(record) => records.push(record),
                Err(_) => return fields.damaged("a record in flight cannot be read"),
            }
        }
        Ok((input, records))
    })?;
    fields.finish(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_records_and_splits_come_back() {
        let captured = vec![
            (0, vec![Record::value("a"), Record::default(), Record::value("b").with_key("k")]),
            (7, vec![Record::value("")]),
        ];
        assert_eq!(from_bytes(&to_bytes(&captured)).unwrap(), captured);
        let splits =
            vec![SplitState::new("t-0", Bytes::from_static(b"5")), SplitState::new("", Bytes::new())];
        assert_eq!(splits_from_bytes(&splits_to_bytes(&splits)).unwrap(), splits);
    }

    #[test]
    fn cut_bytes_are_refused() {
        let bytes = to_bytes(&[(3, vec![Record::value("abc"); 4])]);
        assert!((0..bytes.len()).all(|length| from_bytes(&bytes[..length]).is_err()));
    }
}
