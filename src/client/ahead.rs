//! The identity of a producer's next transaction, got ready before anybody waits for it.

use std::sync::Arc;

use super::{
    producer::{Next, Shared, acquire, identity_for},
    router::FRESH,
};
use crate::{
    ids::{Identity, Moment},
    net::Background,
    proto::{cause::Cause, initialize::Claim},
};

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

    /// Renews the pair of a transaction that was ended with EndTxn 4 or older. The coordinator has just said so, so it need
    /// not be asked whether anything is open under the pair: unless `since`, when the end was asked for, is long ago, for
    /// then this process may have been asleep, and the id have a new owner.
    ///
    /// Must be called within a tokio runtime.
    pub(super) fn after_end(shared: Arc<Shared>, own: Identity, since: Moment) -> Self {
        Self(Background::start(async move {
            let is_new = shared.router.clock.now().since(since) < FRESH;
            let claim = if is_new { Claim::Ended(own) } else { Claim::Renew(own) };
            acquire(&shared, claim).await.map(Next::Fresh)
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
