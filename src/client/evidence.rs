//! Reads the log of a partition for what it proves about a transaction.

use super::router::{Purpose, Router};
use crate::{
    exchange::{Fetch, FetchTarget, Isolation, ListOffsets, OffsetAt},
    ids::{TopicId, TopicPartition},
    proto::{
        committable::Committable,
        evidence::{BatchKind, EvidenceEffect, EvidenceInput, LogBatch, Marker, PartitionEvidence},
        resume::ResumeInput,
        verdict::{self, FetchVerdict, ListOffsetsVerdict, MetadataVerdict},
    },
    wire::{
        batch::{Batches, ControlType},
        code::ErrorCode,
        fetch::FetchPartition,
    },
};

/// The verdict on one partition of the committable, or that the log can't be read now.
pub(super) async fn read(
    router: &Router,
    committable: &Committable,
    partition: usize,
    end_txn_version: Option<i16>,
) -> ResumeInput {
    let Some(at) = committable.partitions.get(partition) else {
        return ResumeInput::LogUnavailable { partition };
    };
    let mut machine = PartitionEvidence::new(committable, end_txn_version, at);
    let place = at.topic_partition();
    loop {
        let Some(effect) = machine.poll_effect() else {
            return ResumeInput::LogUnavailable { partition };
        };
        let input = match effect {
            EvidenceEffect::CheckTopic => topic(router, &place).await,
            EvidenceEffect::Read { from } => fetch(router, &place, from).await,
            EvidenceEffect::FindLogStart => log_start(router, &place).await,
        };
        let Some(input) = input else { return ResumeInput::LogUnavailable { partition } };
        if machine.handle(router.clock.now(), input).is_err() {
            return ResumeInput::LogUnavailable { partition };
        }
        if let Some(verdict) = machine.verdict() {
            return ResumeInput::Log { partition, verdict };
        }
    }
}

async fn topic(router: &Router, place: &TopicPartition) -> Option<EvidenceInput> {
    let answer = router.metadata(Some(vec![place.topic.clone()])).await.ok()?;
    let topic = answer.topics.iter().find(|t| t.name == place.topic)?;
    match topic.verdict {
        MetadataVerdict::Known | MetadataVerdict::Leaderless => Some(EvidenceInput::Topic(topic.id)),
        MetadataVerdict::Missing => Some(EvidenceInput::TopicMissing),
        MetadataVerdict::Denied => Some(EvidenceInput::Denied),
        MetadataVerdict::Retry
        | MetadataVerdict::InvalidName
        | MetadataVerdict::Rebootstrap
        | MetadataVerdict::Failed => None,
    }
}

async fn fetch(router: &Router, place: &TopicPartition, from: i64) -> Option<EvidenceInput> {
    let node = router.leader(place)?;
    let max_bytes = 4 << 20;
    let call = Fetch {
        isolation: Isolation::Uncommitted,
        max_wait_ms: 100,
        min_bytes: 1,
        max_bytes,
        targets: vec![FetchTarget {
            partition: place.clone(),
            topic_id: TopicId::UNKNOWN,
            offset: from,
            max_bytes,
            last_epoch: None,
        }],
    };
    let answer = router.ask(node, Purpose::Fetch, call).await.ok()?;
    let topic = answer.topics.iter().find(|t| t.name == place.topic)?;
    let part = topic.partitions.iter().find(|p| p.index == place.partition)?;
    let code = ErrorCode::from_code(part.error_code);
    router.answered(node, place, code);
    match verdict::fetch(0, code) {
        FetchVerdict::Read => batches(part),
        FetchVerdict::OutOfRange => Some(EvidenceInput::OutOfRange),
        FetchVerdict::Denied => Some(EvidenceInput::Denied),
        FetchVerdict::RetryAfterMetadata
        | FetchVerdict::Retry
        | FetchVerdict::SessionLost
        | FetchVerdict::Failed => None,
    }
}

fn batches(part: &FetchPartition) -> Option<EvidenceInput> {
    let mut seen = Vec::new();
    for batch in Batches::new(part.records.clone()) {
        // A batch that can't be read is no evidence of anything; what came before it is.
        let Ok(batch) = batch else { break };
        let header = batch.header();
        let kind = match (header.is_control(), header.is_transactional()) {
            (true, _) => match batch.control().map(|record| record.map(|record| record.control_type)) {
                Ok(Some(ControlType::Commit)) => BatchKind::Ends(Marker::Commit),
                Ok(Some(ControlType::Abort)) => BatchKind::Ends(Marker::Abort),
                Ok(Some(ControlType::Other(_)) | None) => BatchKind::EmptyControl,
                // It may be the marker, so what comes behind it proves nothing.
                Err(_) => break,
            },
            (false, true) => BatchKind::Transactional,
            (false, false) => BatchKind::Plain,
        };
        seen.push(LogBatch {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            identity: header.identity().unwrap_or(crate::ids::Identity::new(-1, -1)),
            kind,
        });
    }
    Some(EvidenceInput::Batches {
        batches: seen,
        high_watermark: part.high_watermark,
        last_stable_offset: part.last_stable_offset,
    })
}

async fn log_start(router: &Router, place: &TopicPartition) -> Option<EvidenceInput> {
    let node = router.leader(place)?;
    let call = ListOffsets {
        isolation: Isolation::Uncommitted,
        partitions: vec![(place.clone(), OffsetAt::Earliest)],
    };
    let answer = router.ask(node, Purpose::Control, call).await.ok()?;
    let (_, offset) = answer.into_iter().find(|(p, _)| p == place)?;
    router.answered(node, place, offset.err().unwrap_or(ErrorCode::None));
    match offset {
        Ok(start) => Some(EvidenceInput::LogStart(start)),
        Err(code) => match verdict::list_offsets(0, code) {
            ListOffsetsVerdict::Denied => Some(EvidenceInput::Denied),
            ListOffsetsVerdict::Known
            | ListOffsetsVerdict::RetryAfterMetadata
            | ListOffsetsVerdict::Retry
            | ListOffsetsVerdict::Failed => None,
        },
    }
}
