//! What can be said of a sink without any broker.

use kafka_2pc::ids::{Identity, TopicId, TransactionalId};
use kafka_2pc::proto::committable::{Committable, CommittablePartition};
use kafka_2pc::proto::naming::{IdPrefix, Naming, NamingError, Ownership};
use kafka_2pc::proto::pool::{LastUse, Pool, WriterState};
use kafka_2pc::proto::sealed::StateError;

use crate::bench::Bench;
use crate::outcome::{Failure, Shown, equal, holds};

fn committable(partitions: usize, known: bool) -> Committable {
    Committable {
        transactional_id: TransactionalId::new("orders-3-12"),
        identity: Identity::new(i64::MAX, i16::MAX),
        end_txn_version: known.then_some(5),
        start_ms: known.then_some(-1),
        timeout_ms: known.then_some(i32::MAX),
        deadline_ms: known.then_some(i64::MIN),
        cluster_id: known.then(|| "kZ8v".into()),
        partitions: (0..partitions)
            .map(|i| CommittablePartition {
                topic: format!("tópico-{i}").into(),
                partition: i32::MAX,
                topic_id: TopicId([u8::try_from(i % 256).unwrap_or(0); 16]),
                offset: -1,
                records: u64::MAX,
            })
            .collect(),
    }
}

fn writer_state(naming: Naming) -> Result<WriterState, Failure> {
    let mut pool = Pool::new(naming, IdPrefix::new("orders")?, Ownership::new(1, 2)?, 4);
    let first = pool.take(1)?;
    pool.prepared(first, 1, LastUse::of(&committable(1, true)))?;
    pool.take(2)?;
    Ok(pool.state_to_keep())
}

/// Both come back from their bytes as they were. The next format is refused as that, other bytes as what they are, and
/// nothing is read from a part, or from changed bytes.
pub(super) async fn k01(_: &Bench) -> Shown {
    for original in [committable(0, false), committable(1, true), committable(300, true)] {
        equal("a committable", Committable::from_bytes(&original.to_bytes())?, original)?;
    }
    for naming in [Naming::Pooled, Naming::Incrementing] {
        let original = writer_state(naming)?;
        equal("a writer's state", WriterState::from_bytes(&original.to_bytes())?, original)?;
    }
    let (one, other) = (committable(2, true).to_bytes(), writer_state(Naming::Pooled)?.to_bytes());
    let committables = |bytes: &[u8]| Committable::from_bytes(bytes).map(|_| ());
    let states = |bytes: &[u8]| WriterState::from_bytes(bytes).map(|_| ());
    versions_and_damage("a committable", &one, &other, committables)?;
    versions_and_damage("a writer's state", &other, &one, states)
}

fn versions_and_damage(
    what: &str,
    bytes: &[u8],
    foreign: &[u8],
    read: impl Fn(&[u8]) -> Result<(), StateError>,
) -> Shown {
    let found = u16::from_be_bytes([bytes[4], bytes[5]]);
    let mut newer = bytes[..bytes.len() - 4].to_vec();
    newer[4..6].copy_from_slice(&(found + 1).to_be_bytes());
    newer.extend_from_slice(&crc32c(&newer).to_be_bytes());
    let refused = read(&newer);
    let told = matches!(refused, Err(StateError::Newer { found: f, .. }) if f == found + 1);
    holds(told, format!("{what} of the next format: {refused:?}"))?;
    let refused = read(foreign);
    holds(matches!(refused, Err(StateError::Foreign { .. })), format!("not {what}: {refused:?}"))?;
    for end in 0..bytes.len() {
        let refused = read(&bytes[..end]);
        holds(
            matches!(refused, Err(StateError::Torn { .. })),
            format!("{end} bytes of {what}: {refused:?}"),
        )?;
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[at] ^= 0x10;
        holds(read(&changed).is_err(), format!("{what} with byte {at} changed was read"))?;
    }
    Ok(())
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg()))
    })
}

/// Ids by checkpoint are continued as a pool. The way back is refused, for a pool's ids do not tell what is left over.
pub(super) async fn k18(_: &Bench) -> Shown {
    let prefix = IdPrefix::new("orders")?;
    let both = |naming| -> Result<Vec<WriterState>, Failure> {
        let owners = [Ownership::new(0, 2)?, Ownership::new(1, 2)?];
        Ok(owners.into_iter().map(|o| WriterState::fresh(naming, prefix.clone(), o)).collect())
    };
    for (from, to) in [
        (Naming::Incrementing, Naming::Incrementing),
        (Naming::Incrementing, Naming::Pooled),
        (Naming::Pooled, Naming::Pooled),
    ] {
        let dealt = WriterState::deal(&both(from)?, 3, to, &prefix)?;
        equal(&format!("{from:?} to {to:?}"), dealt.len(), 3)?;
        equal("the naming", dealt.iter().all(|state| state.naming == to), true)?;
    }
    let back = WriterState::deal(&both(Naming::Pooled)?, 2, Naming::Incrementing, &prefix);
    equal("the way back", back.map(|dealt| dealt.len()), Err(NamingError::Migration))?;
    // One subtask that has changed already is enough.
    let mixed = [both(Naming::Incrementing)?.remove(0), both(Naming::Pooled)?.remove(1)];
    let back = WriterState::deal(&mixed, 2, Naming::Incrementing, &prefix);
    equal("half of the way back", back.map(|dealt| dealt.len()), Err(NamingError::Migration))
}
