//! Produce, versions 3 to 13: read without a copy, answered by hand.

use kafka_protocol::messages::ApiKey;

use super::{
    Shared,
    answers::TOPIC_ID,
    batches::Sum,
    walk::{Form, Walk, Width, put_uvarint},
};

/// What stands before the batches.
struct Head<'a> {
    version: i16,
    correlation: i32,
    form: Form,
    transactional_id: Option<&'a str>,
    acks: i16,
}

/// One partition of the answer.
struct Stored {
    partition: i32,
    base_offset: i64,
}

/// The answer to a frame without its length; empty where the client wants none (acks 0).
pub(super) fn answer(frame: &[u8], shared: &Shared) -> Option<Vec<u8>> {
    let mut walk = Walk(frame);
    let head = head(&mut walk)?;
    let mut topics: Vec<(&str, Vec<Stored>)> = Vec::new();
    let mut sum = Sum::default();
    for _ in 0..walk.length(head.form, Width::Four)?? {
        let topic = topic(&mut walk, &head, shared)?;
        let mut stored = Vec::new();
        for _ in 0..walk.length(head.form, Width::Four)?? {
            let partition = walk.i32()?;
            let length = walk.length(head.form, Width::Four)??;
            let records = walk.take(length)?;
            walk.tags(head.form)?;
            let base_offset = shared.logs().append(partition, records, shared.settings.check, &mut sum)?;
            stored.push(Stored { partition, base_offset });
        }
        walk.tags(head.form)?;
        topics.push((topic, stored));
    }
    note(&head, &topics, &sum, frame.len(), shared);
    Some(if head.acks == 0 { Vec::new() } else { write(&head, &topics) })
}

/// The name of a topic, which version 13 tells by its id. There is only one.
fn topic<'a>(walk: &mut Walk<'a>, head: &Head<'_>, shared: &'a Shared) -> Option<&'a str> {
    if head.version < 13 {
        return walk.string(head.form)?;
    }
    (walk.take(16)? == TOPIC_ID.as_bytes()).then_some(&shared.settings.topic)
}

fn head<'a>(walk: &mut Walk<'a>) -> Option<Head<'a>> {
    let (_key, version, correlation) = (walk.i16()?, walk.i16()?, walk.i32()?);
    let form = if version >= 9 { Form::Compact } else { Form::Classic };
    let _client = walk.string(Form::Classic)?;
    walk.tags(form)?;
    let transactional_id = walk.string(form)?;
    let acks = walk.i16()?;
    let _timeout = walk.i32()?;
    (3..=13).contains(&version).then_some(Head { version, correlation, form, transactional_id, acks })
}

fn note(head: &Head<'_>, topics: &[(&str, Vec<Stored>)], sum: &Sum, bytes: usize, shared: &Shared) {
    let mut complaints = Vec::new();
    if let Some(id) = head.transactional_id {
        let mut coordinator = shared.coordinator();
        for (topic, stored) in topics {
            let partitions = stored.iter().map(|s| s.partition);
            complaints.extend(coordinator.produced(id, topic, partitions, head.version));
        }
    }
    let mut counters = shared.counters();
    counters.request(ApiKey::Produce, bytes);
    counters.records += sum.records;
    counters.batches += sum.batches;
    counters.batch_bytes += sum.bytes;
    counters.crc_errors += sum.crc_errors;
    counters.sequence_gaps += sum.gaps;
    counters.record_errors += sum.record_errors;
    counters.complaints.extend(complaints);
}

fn write(head: &Head<'_>, topics: &[(&str, Vec<Stored>)]) -> Vec<u8> {
    let compact = head.form == Form::Compact;
    let mut out = Vec::with_capacity(64 + 32 * topics.iter().map(|(_, stored)| stored.len()).sum::<usize>());
    let array = |out: &mut Vec<u8>, length: usize| {
        if compact {
            put_uvarint(out, length + 1);
        } else {
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    };
    let tags = |out: &mut Vec<u8>| out.extend(compact.then_some(0));
    out.extend_from_slice(&head.correlation.to_be_bytes());
    tags(&mut out);
    array(&mut out, topics.len());
    for (topic, stored) in topics {
        if head.version >= 13 {
            out.extend_from_slice(TOPIC_ID.as_bytes());
        } else if compact {
            put_uvarint(&mut out, topic.len() + 1);
            out.extend_from_slice(topic.as_bytes());
        } else {
            out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
            out.extend_from_slice(topic.as_bytes());
        }
        array(&mut out, stored.len());
        for Stored { partition, base_offset } in stored {
            out.extend_from_slice(&partition.to_be_bytes());
            out.extend_from_slice(&0i16.to_be_bytes());
            out.extend_from_slice(&base_offset.to_be_bytes());
            // No append time.
            out.extend_from_slice(&(-1i64).to_be_bytes());
            if head.version >= 5 {
                // The log's start.
                out.extend_from_slice(&0i64.to_be_bytes());
            }
            if head.version >= 8 {
                // No errors of records, no message.
                array(&mut out, 0);
                out.extend_from_slice(if compact { &[0] } else { &[0xff, 0xff] });
            }
            tags(&mut out);
        }
        tags(&mut out);
    }
    // Not throttled.
    out.extend_from_slice(&0i32.to_be_bytes());
    tags(&mut out);
    out
}
