//! Offsets of a consumer group in the transaction.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::oneshot;

use super::Transaction;
#[cfg(doc)]
use crate::proto::cause::CauseKind;
use crate::{
    client::{error::SendError, writer::Command},
    ids::TopicPartition,
    proto::offsets::{ConsumerGroupMetadata, GroupOffsets, OffsetAndMetadata},
};

impl Transaction {
    /// Commits offsets of a consumer group with this transaction (Java: `sendOffsetsToTransaction`), and waits until the
    /// group's coordinator keeps them. They count when the transaction commits, together with its records; an abort leaves
    /// the group where it was. Without offsets it is done at once, and the transaction stays empty.
    ///
    /// A caller that assigns partitions itself gives [`ConsumerGroupMetadata::new`]; a member of a group gives its own
    /// generation and ids, so that offsets of partitions that others read now are refused (KIP-447). Needs READ on the
    /// group and on the offsets' topics. Tried for `delivery.timeout.ms`.
    ///
    /// # Errors
    /// [`SendError::Offsets`] for what no broker takes, with the transaction as before; [`SendError::Failed`] if they were
    /// refused ([`CauseKind::GroupMoved`] for a member that is none any more): it can only be aborted then.
    ///
    /// # Cancel safety
    /// A dropped future has sent them all the same, or nothing.
    pub async fn send_offsets(
        &mut self,
        group: &ConsumerGroupMetadata,
        offsets: impl IntoIterator<Item = (TopicPartition, OffsetAndMetadata)>,
    ) -> Result<(), SendError> {
        self.begin_offsets(group, offsets.into_iter().collect())?.await
    }

    /// Sends offsets; the future waits until they are kept.
    pub(crate) fn begin_offsets(
        &mut self,
        group: &ConsumerGroupMetadata,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<impl Future<Output = Result<(), SendError>> + Send + 'static + use<>, SendError> {
        self.link.check()?;
        let offsets = GroupOffsets { group: group.clone(), offsets };
        let refused = |why| Err(SendError::Offsets { group: group.group_id.to_string(), why });
        if group.group_id.as_str().is_empty() {
            return refused("a group has a name".to_owned());
        }
        if let Some((place, at)) = offsets.offsets.iter().find(|(_, at)| at.offset < 0) {
            return refused(format!("{place} has no offset {}", at.offset));
        }
        let (reply, answer) = oneshot::channel();
        if offsets.offsets.is_empty() {
            _ = reply.send(Ok(()));
        } else {
            // A task that is gone has left its cause behind.
            _ = self.commands.send(Command::Offsets(Arc::new(offsets), reply));
        }
        let link = Arc::clone(&self.link);
        Ok(async move {
            match answer.await {
                Ok(result) => result.map_err(SendError::Failed),
                Err(_) => Err(SendError::Failed(link.cause())),
            }
        })
    }
}
