//! Looks for partitions that were added.

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};

use super::{
    plan::{new_split, owned},
    state::KafkaSplit,
};
use crate::{
    client::{Client, Isolation, OffsetAt, Topic},
    source::{SourceError, Subtask},
};

/// Looks at the topics again and again, as long as it is asked.
pub(super) struct Discovery {
    client: Client,
    interval: Duration,
    subtask: Subtask,
    topics: Vec<Topic>,
    /// Kept over calls that were given up.
    looking: Option<BoxFuture<'static, (Vec<Topic>, Vec<KafkaSplit>)>>,
}

impl Discovery {
    pub(super) fn new(client: Client, interval: Duration, subtask: Subtask, topics: Vec<Topic>) -> Self {
        Self { client, interval, subtask, topics, looking: None }
    }

    /// The next partitions that are new and belong to the subtask, at their earliest offsets.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Vec<KafkaSplit> {
        let looking = self.looking.get_or_insert_with(|| {
            look(self.client.clone(), self.interval, self.subtask, self.topics.clone()).boxed()
        });
        let (topics, found) = looking.await;
        self.looking = None;
        self.topics = topics;
        found
    }
}

async fn look(
    client: Client,
    interval: Duration,
    subtask: Subtask,
    mut topics: Vec<Topic>,
) -> (Vec<Topic>, Vec<KafkaSplit>) {
    let clock = client.clock();
    loop {
        clock.sleep_until(Some(clock.now().after(interval))).await;
        let mut found = Vec::new();
        for topic in &mut topics {
            match grown(&client, subtask, topic).await {
                Ok(splits) => found.extend(splits),
                // Reading tells what is wrong with a topic, if anything is.
                Err(error) => tracing::warn!(
                    topic = %topic.name(), %error, "can't look for new partitions; trying again later"
                ),
            }
        }
        if !found.is_empty() {
            return (topics, found);
        }
    }
}

/// What was added to a topic. It counts as known only when its offsets are.
async fn grown(client: &Client, subtask: Subtask, topic: &mut Topic) -> Result<Vec<KafkaSplit>, SourceError> {
    let now = client.topic(topic.name()).await?;
    if now.id() != topic.id() || now.partitions() <= topic.partitions() {
        return Ok(Vec::new());
    }
    let places: Vec<_> = owned(&now, subtask, topic.partitions()).collect();
    let mut splits = Vec::new();
    if !places.is_empty() {
        let asked = places.into_iter().map(|place| (place, OffsetAt::Earliest));
        let starts = client.list_offsets(Isolation::Uncommitted, asked).await?;
        let known = starts.into_iter().filter_map(|(place, start)| Some((place, start?)));
        splits.extend(known.map(|(place, start)| new_split(&now, place, start)));
    }
    tracing::info!(
        topic = %now.name(), before = topic.partitions(), now = now.partitions(), ours = splits.len(),
        "partitions were added"
    );
    *topic = now;
    Ok(splits)
}
