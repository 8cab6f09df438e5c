//! What a job does in the background, and what comes of it.

use std::time::Duration;

use crate::{
    client::Client,
    net::Background,
    proto::{
        committable::Committable,
        settle::{CommittedButHanging, SettleError, SettleTarget, Settled},
    },
    sink::{Committed, Committer},
};

/// Something in the background came to its end.
pub(super) enum Event {
    Rechecked(Box<CommittedButHanging>, Result<Settled, SettleError>),
    Committed(Committed),
    Settled(Box<Committable>, Result<Settled, SettleError>),
    Repaired(Box<CommittedButHanging>, Result<(), String>),
}

/// Looks until the commit is on every partition.
pub(super) fn settle(committer: &Committer, committable: Committable) -> Background<Event> {
    let committer = committer.clone();
    Background::start(async move {
        let settled = committer.settle(&committable).await;
        Event::Settled(Box::new(committable), settled)
    })
}

/// Looks once more at what was found hanging: it may have been repaired since.
pub(super) fn recheck(client: &Client, hanging: CommittedButHanging) -> Background<Event> {
    let client = client.clone();
    Background::start(async move {
        let settled = client.settle(SettleTarget::again(&hanging), Duration::from_secs(5)).await;
        Event::Rechecked(Box::new(hanging), settled)
    })
}
