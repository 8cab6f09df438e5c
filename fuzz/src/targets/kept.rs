//! What is kept across process borders: committables, writers' state, checkpoints, records on their way.

use std::fmt::Debug;

use kafka_2pc::{
    checkpoint::Checkpoint,
    ids::Identity,
    proto::{committable::Committable, pool::WriterState, sealed::StateError},
    record::Record,
};

use crate::memory::peak_of;

const COMMITTABLE: [u8; 4] = *b"K2PC";
const WRITER: [u8; 4] = *b"K2PW";
const CHECKPOINT: [u8; 4] = *b"K2PK";
/// A position in an input of lines, alone and as a split.
const POSITIONS: [[u8; 4]; 2] = [*b"K2PI", *b"K2PL"];

/// Magic, format, length; and the checksum behind the body.
const HEAD_BYTES: usize = 14;
const TAIL_BYTES: usize = 4;

/// Memory for each byte that is read, and some more.
const MEMORY_PER_BYTE: u64 = 64;
const MEMORY_SLACK: u64 = 4 * 1024;

/// A committable's bytes, as they are, and with an envelope that was made right.
///
/// What is read has one encoding, and can be shown.
pub fn committable(input: &[u8]) {
    for bytes in [input.to_vec(), sealed(COMMITTABLE, input)] {
        let Some(read) = bounded(&bytes, Committable::from_bytes) else { continue };
        assert_eq!(read.to_bytes(), bytes, "a second encoding of {read:?}");
        assert!(read.to_json()["partitions"].as_array().is_some_and(|p| p.len() == read.partitions.len()));
        let _ = (read.records(), read.commit_epoch());
    }
}

/// The bytes of a committable that Flink's Kafka sink wrote.
///
/// What is read is the same when it is written as Java writes it. Ours are told apart.
pub fn flink(input: &[u8]) {
    let Some(read) = bounded(input, Committable::from_flink_bytes) else { return };
    assert!(!input.starts_with(&COMMITTABLE));
    let Identity { producer_id, epoch } = read.identity;
    assert!(producer_id.0 >= 0 && epoch.0 >= 0 && !read.transactional_id.as_str().is_empty());
    let id: Vec<u8> = read.transactional_id.as_str().encode_utf16().flat_map(java_unit).collect();
    // Java refuses a text that needs more; bytes with overlong forms may hold one.
    if let Ok(length) = u16::try_from(id.len()) {
        let parts: [&[u8]; 4] =
            [&epoch.0.to_be_bytes(), &producer_id.0.to_be_bytes(), &length.to_be_bytes(), &id];
        assert_eq!(Committable::from_flink_bytes(&parts.concat()).as_ref(), Ok(&read));
    }
    assert_eq!(Committable::from_bytes(&read.to_bytes()).as_ref(), Ok(&read));
}

/// A UTF-16 unit as `DataOutputStream.writeUTF` writes it.
fn java_unit(unit: u16) -> Vec<u8> {
    let [high, low] = unit.to_be_bytes();
    match unit {
        1..=0x7f => vec![low],
        0 | 0x80..=0x7ff => vec![0xc0 | high << 2 | low >> 6, 0x80 | low & 0x3f],
        0x800.. => vec![0xe0 | high >> 4, 0x80 | (high & 0xf) << 2 | low >> 6, 0x80 | low & 0x3f],
    }
}

/// The bytes of a writer's state, of any format.
pub fn writer_state(input: &[u8]) {
    for bytes in [input.to_vec(), sealed(WRITER, input)] {
        comes_back(&bytes, WriterState::from_bytes, WriterState::to_bytes);
    }
}

/// A checkpoint's bytes, of any format, as they are, and with envelopes that were made right, the inner ones as well.
pub fn checkpoint(input: &[u8]) {
    for bytes in [input.to_vec(), sealed(CHECKPOINT, &inner_sealed(input))] {
        let Some(read) = comes_back(&bytes, Checkpoint::from_bytes, Checkpoint::to_bytes) else { continue };
        let _ = read.input();
        for operator in &read.operators {
            assert!(read.operator(&operator.uid).is_some());
            let _ = read.splits(&operator.uid);
        }
    }
}

/// Records one after the other, as a snapshot keeps those that it finds on their way.
pub fn record(input: &[u8]) {
    let mut rest = input;
    while !rest.is_empty() {
        let before = rest;
        let (read, peak) = peak_of(|| Record::decode(&mut rest));
        let bound = MEMORY_PER_BYTE * before.len() as u64 + MEMORY_SLACK;
        assert!(peak <= bound, "{peak} bytes of memory for {}", before.len());
        let Ok(read) = read else {
            assert_eq!(rest, before, "an error takes nothing");
            return;
        };
        let mut again = Vec::new();
        read.encode(&mut again);
        assert_eq!(again, before[..before.len() - rest.len()], "a second encoding of {read:?}");
    }
}

/// Reads within the bound on memory; `None` for what is refused.
fn bounded<T>(bytes: &[u8], read: impl FnOnce(&[u8]) -> Result<T, StateError>) -> Option<T> {
    let (read, peak) = peak_of(|| read(bytes));
    let bound = MEMORY_PER_BYTE * bytes.len() as u64 + MEMORY_SLACK;
    assert!(peak <= bound, "{peak} bytes of memory for {}", bytes.len());
    match read {
        Ok(read) => Some(read),
        Err(StateError::Torn { have, need, .. }) => {
            assert!(have < need, "{have} bytes of {need}");
            None
        }
        Err(_) => None,
    }
}

/// What is read is the same after it was written, in the newest format, and its bytes do not change any more.
fn comes_back<T: PartialEq + Debug>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Result<T, StateError>,
    write: impl Fn(&T) -> Vec<u8>,
) -> Option<T> {
    let first = bounded(bytes, &read)?;
    let written = write(&first);
    let second = read(&written);
    assert_eq!(second.as_ref(), Ok(&first));
    assert_eq!(second.map(|second| write(&second)).as_ref(), Ok(&written));
    Some(first)
}

/// The bytes in an envelope of this kind, whose format they choose and whose length and checksum are right.
fn sealed(magic: [u8; 4], bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    sealed.resize(bytes.len().max(HEAD_BYTES + TAIL_BYTES), 0);
    sealed[..4].copy_from_slice(&magic);
    // A format above the newest is refused by one line; there are two.
    sealed[4..6].copy_from_slice(&[0, 1 + bytes.get(5).unwrap_or(&1) % 2]);
    if [COMMITTABLE, POSITIONS[0], POSITIONS[1]].contains(&magic) {
        sealed[5] = 1;
    }
    let body = (sealed.len() - HEAD_BYTES - TAIL_BYTES) as u64;
    sealed[6..HEAD_BYTES].copy_from_slice(&body.to_be_bytes());
    put_checksum(&mut sealed);
    sealed
}

/// The bytes with the checksum of every envelope inside them made right, as far as their lengths say where it is.
fn inner_sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let kinds = [COMMITTABLE, WRITER, POSITIONS[0], POSITIONS[1]];
    // From the back: what lies inside another envelope comes before it.
    for at in (1..bytes.len().saturating_sub(HEAD_BYTES)).rev() {
        if !kinds.iter().any(|magic| bytes[at..].starts_with(magic)) {
            continue;
        }
        let mut length = [0; 8];
        length.copy_from_slice(&bytes[at + 6..at + HEAD_BYTES]);
        let whole = usize::try_from(u64::from_be_bytes(length))
            .ok()
            .and_then(|body| body.checked_add(HEAD_BYTES + TAIL_BYTES));
        if let Some(inner) = whole.and_then(|whole| bytes[at..].get_mut(..whole)) {
            put_checksum(inner);
        }
    }
    bytes
}

fn put_checksum(sealed: &mut [u8]) {
    let (content, tail) = sealed.split_at_mut(sealed.len() - TAIL_BYTES);
    tail.copy_from_slice(&crc32c::crc32c(content).to_be_bytes());
}
