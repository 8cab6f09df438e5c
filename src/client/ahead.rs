//! The identity of a producer's next transaction, got ready before anybody waits for it.

use std::sync::Arc;

use super::producer::{Next, Shared, identity_for};
use crate::{net::Background, proto::cause::Cause};

/// What is under way for a producer's next transaction. It ends with its producer: a takeover that is tried on could end
/// what a successor of ours has prepared meanwhile.
#[derive(Debug)]
pub(crate) struct Ahead(Background<Result<Next, Cause>>);

impl Ahead {
    /// Gets ready what the next transaction needs, after what was begun before.
    ///
    /// Must be called within a tokio runtime.
    pub(super) fn start(shared: Arc<Shared>, next: Next, before: Option<Self>) -> Self {
        Self(Background::start(async move {
            let next = match before {
                Some(before) => before.reached(next).await,
                None => next,
            };
            let (identity, version) = identity_for(&shared, next).await?;
            if let Ok(Ok(node)) = shared.router.coordinator(&shared.transactional_id).await {
                shared.router.freshen_profile(node).await;
            }
            Ok(next.with(identity, version))
        }))
    }

    /// What the next transaction begins with: `next` as it was if nothing was reached.
    pub(super) async fn reached(self, next: Next) -> Next {
        match self.0.await {
            Some(Ok(next)) => next,
            // Whoever begins tries it again, and tells why it fails.
            Some(Err(_)) | None => next,
        }
    }
}
