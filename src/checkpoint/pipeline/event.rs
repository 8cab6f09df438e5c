//! What a job does in the background, and what comes of it.

use std::time::Duration;

use tracing::{Instrument, Span};

use crate::{
    checkpoint::step::{Note, Part, Steps},
    client::Client,
    net::{Background, Clock},
    proto::{
        cause::{Cause, CauseKind},
        committable::Committable,
        resume::{First, Outcome},
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

/// Commits, and notes how long that took.
pub(super) fn commit(
    committer: &Committer,
    committable: Committable,
    (steps, clock): (Steps, Clock),
    span: Span,
) -> Background<Event> {
    let (committer, began) = (committer.clone(), clock.now());
    let committing = async move {
        let committed = committer.commit_one(committable, First::EndTxn).await;
        if matches!(&committed.result, Ok(resumed) if resumed.outcome == Outcome::Committed) {
            steps.note(Note::Took(Part::Commit, clock.now().since(began)));
        }
        Event::Committed(committed)
    };
    Background::start(committing.instrument(span))
}

/// Looks until the commit is on every partition.
pub(super) fn settle(committer: &Committer, committable: Committable, span: Span) -> Background<Event> {
    let committer = committer.clone();
    let settling = async move {
        let settled = committer.settle(&committable).await;
        Event::Settled(Box::new(committable), settled)
    };
    Background::start(settling.instrument(span))
}

/// Looks once more at what was found hanging: it may have been repaired since.
pub(super) fn recheck(client: &Client, hanging: CommittedButHanging) -> Background<Event> {
    let client = client.clone();
    Background::start(async move {
        let settled = client.settle(SettleTarget::again(&hanging), Duration::from_secs(5)).await;
        Event::Rechecked(Box::new(hanging), settled)
    })
}

/// Why a transaction is left.
pub(super) fn not_aborted(waited: Duration) -> Cause {
    Cause::new(CauseKind::Unreachable, format!("its abort was not answered within {waited:?}"))
}

/// What is logged of a decision that is slow to arrive.
pub(in crate::checkpoint) const ON_THEIR_WAY: &str =
    "markers are still on their way: the leader of a partition is busy or missing; look at the brokers";

/// Logs each place at which a decision has not arrived.
pub(in crate::checkpoint) fn log_hanging(hanging: &CommittedButHanging) {
    for p in &hanging.partitions {
        tracing::error!(
            transactional_id = %hanging.transactional_id, identity = %hanging.identity, partition = %p.partition,
            "the decision is made, but its marker is missing: readers stall here until it is repaired"
        );
    }
}
