//! The questions of a consumer, each with its answer as a fact.

use std::{ops::Range, sync::Arc};

use super::{ConsumerError, Start};
use crate::{
    client::{
        ClientError, offsets,
        router::{Purpose, Router},
    },
    exchange::{Fetch, FetchTarget, Isolation, ListOffsets, MetadataAnswer, OffsetAt},
    ids::{NodeId, TopicId, TopicName, TopicPartition},
    net::CallError,
    proto::verdict::{self, FetchVerdict, ListOffsetsVerdict},
    wire::{
        code::ErrorCode,
        fetch::{EpochEnd, FetchPartition, FetchResponse},
    },
};

/// How to fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchSettings {
    pub(super) isolation: Isolation,
    pub(super) max_wait_ms: i32,
    pub(super) max_bytes: i32,
    pub(super) max_partition_bytes: i32,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            isolation: Isolation::Committed,
            max_wait_ms: 500,
            max_bytes: 8 << 20,
            max_partition_bytes: 1 << 20,
        }
    }
}

/// What a partition wants to read.
#[derive(Debug, Clone)]
pub(super) struct Want {
    pub(super) place: TopicPartition,
    pub(super) topic_id: TopicId,
    pub(super) generation: u64,
    pub(super) at: Start,
    pub(super) max_bytes: i32,
    /// The leader epoch of what was read last.
    pub(super) last_epoch: Option<i32>,
}

/// What became of it.
pub(super) enum Fetched {
    /// The beginning or the end is here.
    Start(i64),
    Payload(FetchPartition),
    OutOfRange,
    /// The leader's log is another one than what was read last stood in.
    Diverged(EpochEnd),
    /// Its leader is another one, or does not answer.
    Moved,
    Retry,
    Denied,
    Refused(ErrorCode),
}

/// A job that is done.
pub(super) enum Done {
    Found {
        topics: Vec<TopicName>,
        answer: Result<MetadataAnswer, ClientError>,
    },
    Read {
        node: NodeId,
        fetched: Vec<(Want, Fetched)>,
    },
    /// What the log holds, and the topic as it was seen after that.
    Range {
        want: Want,
        range: Result<Range<i64>, ConsumerError>,
        answer: Result<MetadataAnswer, ClientError>,
    },
}

pub(super) async fn find(router: Arc<Router>, topics: Vec<TopicName>) -> Done {
    let answer = router.metadata(Some(topics.clone())).await;
    Done::Found { topics, answer }
}

/// What the log of a partition holds.
///
/// The topic is looked at last: if it has its old id still, what was said before is of that topic.
pub(super) async fn range(router: Arc<Router>, want: Want) -> Done {
    let range = ends(&router, &want.place).await;
    let answer = router.metadata(Some(vec![want.place.topic.clone()])).await;
    Done::Range { want, range, answer }
}

async fn ends(router: &Arc<Router>, place: &TopicPartition) -> Result<Range<i64>, ConsumerError> {
    let mut ends = [0, 0];
    for (end, at) in ends.iter_mut().zip([OffsetAt::Earliest, OffsetAt::Latest]) {
        let asked = vec![(place.clone(), at)];
        let found = offsets::list(Arc::clone(router), Isolation::Uncommitted, asked).await?;
        *end = found.get(place).copied().unwrap_or(0);
    }
    Ok(ends[0]..ends[1])
}

/// One Fetch for all partitions of a leader that stand at an offset; those that do not learn theirs first.
pub(super) async fn read(
    router: Arc<Router>,
    node: NodeId,
    settings: FetchSettings,
    wants: Vec<Want>,
) -> Done {
    let (known, unknown): (Vec<_>, Vec<_>) =
        wants.into_iter().partition(|want| matches!(want.at, Start::Offset(_)));
    let fetched = if unknown.is_empty() {
        fetch(&router, node, settings, known).await
    } else {
        let mut fetched = starts(&router, node, settings.isolation, unknown).await;
        // They wait one round trip more, rather than the others' whole long poll.
        fetched.extend(known.into_iter().map(|want| (want, Fetched::Retry)));
        fetched
    };
    Done::Read { node, fetched }
}

async fn starts(
    router: &Router,
    node: NodeId,
    isolation: Isolation,
    wants: Vec<Want>,
) -> Vec<(Want, Fetched)> {
    let at = |want: &Want| match want.at {
        Start::End => OffsetAt::Latest,
        Start::Beginning | Start::Offset(_) => OffsetAt::Earliest,
    };
    let partitions = wants.iter().map(|want| (want.place.clone(), at(want))).collect();
    let answer = router.ask(node, Purpose::Control, ListOffsets { isolation, partitions }).await;
    for (place, found) in answer.iter().flatten() {
        router.answered(node, place, found.err().unwrap_or(ErrorCode::None));
    }
    each(wants, |want| match &answer {
        Err(error) => no_answer(error),
        Ok(answer) => {
            let Some((_, found)) = answer.iter().find(|(place, _)| *place == want.place) else {
                return Fetched::Moved;
            };
            match *found {
                Ok(offset) => Fetched::Start(offset),
                Err(code) => match verdict::list_offsets(0, code) {
                    ListOffsetsVerdict::Known | ListOffsetsVerdict::Retry => Fetched::Retry,
                    ListOffsetsVerdict::RetryAfterMetadata => Fetched::Moved,
                    ListOffsetsVerdict::Denied => Fetched::Denied,
                    ListOffsetsVerdict::Failed => Fetched::Refused(code),
                },
            }
        }
    })
}

async fn fetch(
    router: &Router,
    node: NodeId,
    settings: FetchSettings,
    wants: Vec<Want>,
) -> Vec<(Want, Fetched)> {
    let target = |want: &Want| match want.at {
        Start::Offset(offset) => {
            let (partition, topic_id) = (want.place.clone(), want.topic_id);
            Some(FetchTarget {
                partition,
                topic_id,
                offset,
                max_bytes: want.max_bytes,
                last_epoch: want.last_epoch,
            })
        }
        Start::Beginning | Start::End => None,
    };
    let call = Fetch {
        isolation: settings.isolation,
        max_wait_ms: settings.max_wait_ms,
        min_bytes: 1,
        max_bytes: settings.max_bytes,
        targets: wants.iter().filter_map(target).collect(),
    };
    let mut answer = router.ask(node, Purpose::Fetch, call).await;
    each(wants, |want| match &mut answer {
        Err(error) => no_answer(error),
        Ok(answer) => {
            let (code, found) = part(answer, &want.place);
            router.answered(node, &want.place, code);
            fetched(code, found)
        }
    })
}

/// What an answer says of a partition.
fn part(answer: &mut FetchResponse, place: &TopicPartition) -> (ErrorCode, Option<FetchPartition>) {
    let topics = answer.topics.iter_mut().filter(|t| t.name == place.topic);
    let found = topics
        .filter_map(|topic| {
            let at = topic.partitions.iter().position(|p| p.index == place.partition)?;
            Some(topic.partitions.swap_remove(at))
        })
        .next();
    let code = ErrorCode::from_code(found.as_ref().map_or(answer.error_code, |part| part.error_code));
    (code, found)
}

fn fetched(code: ErrorCode, found: Option<FetchPartition>) -> Fetched {
    match (verdict::fetch(0, code), found) {
        (FetchVerdict::Read, Some(FetchPartition { diverging: Some(end), .. })) => Fetched::Diverged(end),
        (FetchVerdict::Read, Some(part)) => Fetched::Payload(part),
        (FetchVerdict::Read, None) | (FetchVerdict::RetryAfterMetadata, _) => Fetched::Moved,
        (FetchVerdict::Retry | FetchVerdict::SessionLost, _) => Fetched::Retry,
        (FetchVerdict::OutOfRange, _) => Fetched::OutOfRange,
        (FetchVerdict::Denied, _) => Fetched::Denied,
        (FetchVerdict::Failed, _) => Fetched::Refused(code),
    }
}

fn no_answer(error: &CallError) -> Fetched {
    tracing::debug!(%error, "no answer to a consumer");
    Fetched::Moved
}

fn each(wants: Vec<Want>, mut what: impl FnMut(&Want) -> Fetched) -> Vec<(Want, Fetched)> {
    let pairs = wants.into_iter().map(|want| {
        let fetched = what(&want);
        (want, fetched)
    });
    pairs.collect()
}
