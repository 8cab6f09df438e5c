use bytes::Bytes;

use super::*;
use crate::{
    checkpoint::{Binding, StoreError},
    ids::{Identity, TransactionalId},
    proto::{
        naming::{IdPrefix, Naming, Ownership},
        pool::Pool,
    },
};

fn position() -> InputPosition {
    let mut position =
        InputPosition { source: "in.ndjson".into(), bytes: 100, lines: 3, ..InputPosition::default() };
    position.hash.update(&[b'x'; 100]);
    position
}

fn checkpoint() -> Checkpoint {
    let committable = Committable {
        transactional_id: TransactionalId::new("job-0-0"),
        identity: Identity::new(7, 3),
        end_txn_version: Some(5),
        start_ms: Some(1),
        timeout_ms: Some(60_000),
        deadline_ms: Some(60_001),
        cluster_id: Some("cluster".into()),
        partitions: vec![],
    };
    let pool = Pool::new(Naming::Pooled, IdPrefix::new("job").unwrap(), Ownership::new(0, 1).unwrap(), 4);
    Checkpoint {
        id: 9,
        owner_epoch: 4,
        job_id: "job".into(),
        cluster_id: "cluster".into(),
        topic: "topic".into(),
        topic_id: TopicId([7; 16]),
        operators: vec![OperatorState {
            uid: "count".into(),
            subtasks: vec![
                StateHandle::Inline(Bytes::from_static(b"small")),
                StateHandle::Stored { name: "count.1".into(), bytes: 1 << 40, checksum: 0xdead_beef },
            ],
        }],
        committables: vec![ListedCommittable { committable, status: CommitStatus::Decided(Decision::Abort) }],
        writers: vec![pool.state_to_keep(), pool.state_to_keep()],
    }
}

/// The bytes that the first release wrote.
fn first_format(checkpoint: &Checkpoint, position: &InputPosition) -> Vec<u8> {
    let fields = Fields::default()
        .u64(checkpoint.id)
        .text(&checkpoint.job_id)
        .text(&checkpoint.cluster_id)
        .text(&checkpoint.topic)
        .text(&position.source)
        .u64(position.bytes)
        .u64(position.lines);
    let fields = position
        .hash
        .write(fields)
        .list(&checkpoint.committables, |fields, listed| {
            fields.u8(status_tag(listed.status)).bytes(&listed.committable.to_bytes())
        })
        .list(&checkpoint.writers, |fields, writer| fields.bytes(&writer.to_bytes()));
    Seal { newest: 1, ..SEAL }.seal(fields)
}

#[test]
fn a_checkpoint_comes_back_whole() {
    for checkpoint in [checkpoint(), checkpoint().with_input(&position())] {
        assert_eq!(Checkpoint::from_bytes(&checkpoint.to_bytes()).unwrap(), checkpoint);
    }
}

#[test]
fn the_first_format_is_read_and_becomes_the_newest_when_it_is_written() {
    let old = first_format(&checkpoint(), &position());
    let read = Checkpoint::from_bytes(&old).unwrap();
    let expected =
        Checkpoint { owner_epoch: 0, topic_id: TopicId::UNKNOWN, operators: vec![], ..checkpoint() };
    assert_eq!(read, expected.with_input(&position()));
    assert_eq!(read.input().unwrap(), Some(position()));
    assert_eq!(Checkpoint::from_bytes(&read.to_bytes()).unwrap(), read);
}

#[test]
fn any_byte_cut_or_flipped_is_an_error_in_either_format() {
    for bytes in [checkpoint().to_bytes(), first_format(&checkpoint(), &position())] {
        for end in 0..bytes.len() {
            Checkpoint::from_bytes(&bytes[..end]).unwrap_err();
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            Checkpoint::from_bytes(&flipped).unwrap_err();
        }
    }
}

#[test]
fn the_position_is_the_state_of_the_operator_named_input() {
    let piped = checkpoint().with_input(&InputPosition::default()).with_input(&position());
    assert_eq!(piped.operators.len(), 2);
    assert_eq!(piped.input().unwrap(), Some(position()));
    assert_eq!(piped.stored_states().count(), 1);
    assert_eq!(checkpoint().input().unwrap(), None);
    let kept = piped.splits("input").unwrap();
    assert_eq!(kept, [position().to_split()], "a source of lines goes on from it");
}

#[test]
fn a_job_of_another_kind_is_refused_where_an_input_of_lines_is_expected() {
    let binding = Binding { source: Some("in.ndjson".into()), ..Binding::default() };
    binding.check(&checkpoint().with_input(&position())).unwrap();
    let mut other = checkpoint();
    let none = binding.check(&other).unwrap_err();
    assert!(none.to_string().contains("holds no position in an input of lines"), "{none}");
    other.operators[0].uid = "input".into();
    let foreign = binding.check(&other).unwrap_err();
    assert!(matches!(foreign, StoreError::OtherKind { .. }), "{foreign}");
    Binding::default().check(&other).unwrap();
}

#[test]
fn a_topic_with_another_id_is_refused_unless_an_id_is_not_known() {
    let at = |id| Binding { topic_id: Some(id), ..Binding::default() };
    let recreated = at(TopicId([8; 16])).check(&checkpoint()).unwrap_err();
    assert!(matches!(recreated, StoreError::TopicRecreated { .. }), "{recreated}");
    at(TopicId([7; 16])).check(&checkpoint()).unwrap();
    at(TopicId::UNKNOWN).check(&checkpoint()).unwrap();
    at(TopicId([8; 16])).check(&Checkpoint { topic_id: TopicId::UNKNOWN, ..checkpoint() }).unwrap();
}

#[test]
fn state_does_not_show_in_debug() {
    let told = format!("{:?}", checkpoint());
    assert!(told.contains("Inline(5 bytes)") && !told.contains("small"), "{told}");
}
