//! Where logs begin and end.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Client,
    consumer::ConsumerError,
    error::ClientError,
    router::{Purpose, Router},
};
use crate::{
    exchange::{Isolation, ListOffsets, OffsetAt},
    ids::{NodeId, TopicPartition},
    net::Clock,
    proto::{
        backoff::Backoff,
        verdict::{self, ListOffsetsVerdict},
    },
    wire::code::ErrorCode,
};

impl Client {
    /// Looks offsets up (ListOffsets): where logs begin and end, or the first record at or after a time, which is
    /// `None` if there is no such record. With [`Isolation::Committed`] a log ends at its last stable offset. Tried for
    /// `max.block.ms`.
    ///
    /// # Errors
    /// [`ConsumerError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_offsets(
        &self,
        isolation: Isolation,
        asked: impl IntoIterator<Item = (TopicPartition, OffsetAt)>,
    ) -> Result<HashMap<TopicPartition, Option<i64>>, ConsumerError> {
        let asked = asked.into_iter().collect();
        let found = list(Arc::clone(&self.router), isolation, asked).await?;
        Ok(found.into_iter().map(|(place, offset)| (place, (offset >= 0).then_some(offset))).collect())
    }
}

type Asked = Vec<(TopicPartition, OffsetAt)>;

/// Asks the leaders of all these partitions, again where they moved, for `max.block.ms`.
pub(super) async fn list(
    router: Arc<Router>,
    isolation: Isolation,
    mut asked: Asked,
) -> Result<HashMap<TopicPartition, i64>, ConsumerError> {
    let deadline = router.clock.now().after(router.config.max_block);
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1), Clock::seed());
    let mut found = HashMap::with_capacity(asked.len());
    loop {
        let trouble = round(&router, isolation, &mut asked, &mut found).await?;
        if asked.is_empty() {
            return Ok(found);
        }
        if router.clock.now() >= deadline {
            let (partition, _) = asked.swap_remove(0);
            return Err(match trouble {
                Trouble::Code(code) => ConsumerError::Refused { partition, code },
                Trouble::Client(error) => error.into(),
            });
        }
        let wake = router.clock.now().after(backoff.next_wait());
        router.clock.sleep_until(Some(wake)).await;
    }
}

/// What stood in the way of the last partition that is left.
enum Trouble {
    Code(ErrorCode),
    Client(ClientError),
}

async fn round(
    router: &Router,
    isolation: Isolation,
    asked: &mut Asked,
    found: &mut HashMap<TopicPartition, i64>,
) -> Result<Trouble, ConsumerError> {
    let mut trouble = Trouble::Code(ErrorCode::LeaderNotAvailable);
    let places: Vec<_> = asked.iter().map(|(place, _)| place.clone()).collect();
    let leaders = match router.find_leaders(&places).await {
        Ok(leaders) => leaders,
        Err(error @ (ClientError::Unreachable(_) | ClientError::Call(_))) => {
            return Ok(Trouble::Client(error));
        }
        Err(error) => return Err(error.into()),
    };
    let mut nodes: Vec<(NodeId, Asked)> = Vec::new();
    for (wanted, (place, leader)) in asked.iter().zip(leaders) {
        match leader {
            None if router.partitions(&place.topic)
                <= usize::try_from(place.partition).unwrap_or(usize::MAX) =>
            {
                // Brokers that just started do not know all topics yet, so this is not the last word.
                trouble = Trouble::Code(ErrorCode::UnknownTopicOrPartition);
            }
            None => {}
            Some(node) => match nodes.iter_mut().find(|(n, _)| *n == node) {
                Some((_, wants)) => wants.push(wanted.clone()),
                None => nodes.push((node, vec![wanted.clone()])),
            },
        }
    }
    let calls = nodes.into_iter().map(|(node, partitions)| async move {
        (node, router.ask(node, Purpose::Control, ListOffsets { isolation, partitions }).await)
    });
    for (node, answer) in futures::future::join_all(calls).await {
        match answer {
            Err(error) => trouble = Trouble::Client(error.into()),
            Ok(answer) => {
                for (place, offset) in answer {
                    router.answered(node, &place, offset.err().unwrap_or(ErrorCode::None));
                    match judge(&place, offset)? {
                        Ok(offset) => {
                            asked.retain(|(left, _)| *left != place);
                            found.insert(place, offset);
                        }
                        Err(code) => trouble = Trouble::Code(code),
                    }
                }
            }
        }
    }
    Ok(trouble)
}

/// The offset, or what is only a matter of time.
fn judge(
    place: &TopicPartition,
    offset: Result<i64, ErrorCode>,
) -> Result<Result<i64, ErrorCode>, ConsumerError> {
    let code = match offset {
        Ok(offset) => return Ok(Ok(offset)),
        Err(code) => code,
    };
    match verdict::list_offsets(0, code) {
        ListOffsetsVerdict::Known | ListOffsetsVerdict::Retry | ListOffsetsVerdict::RetryAfterMetadata => {
            Ok(Err(code))
        }
        ListOffsetsVerdict::Denied => Err(ConsumerError::Denied(place.clone())),
        ListOffsetsVerdict::Failed => Err(ConsumerError::Refused { partition: place.clone(), code }),
    }
}
