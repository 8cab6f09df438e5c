//! Faults as data: which request, and what happens to it instead.

mod condition;
mod seen;

pub(crate) use self::condition::Seen;
pub(crate) use self::seen::Faults;

use std::time::Duration;

use self::condition::Condition;
use crate::wire::api::Api;

/// What happens to a request that a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reaction {
    /// It is answered with this error code and not carried out.
    ErrorCode(i16),
    /// It is carried out and answered with this error code, as a leader does whose followers are late.
    ApplyThenErrorCode(i16),
    /// The connection is closed; nothing is carried out.
    Drop,
    /// It is carried out, and the connection is closed instead of an answer.
    ApplyThenDrop,
    /// It is carried out that much later. The connection serves nothing else meanwhile.
    Delay(Duration),
    /// It is carried out, and answered that much later.
    ApplyThenDelay(Duration),
    /// It is caught on its way, with everything behind it on its connection, and carried out that long after the client
    /// has closed the connection. Nobody gets an answer.
    Hold(Duration),
    /// The same, but it is carried out at [`Broker::deliver_held`](super::Broker::deliver_held).
    HoldUntilDelivered,
    /// The connection is closed when this many bytes of the request have come, its length field included.
    CutRequest(usize),
    /// It is carried out, and the connection is closed after this many bytes of the answer, its length field included.
    CutAnswer(usize),
    /// The node stops as if it was killed, before it carries the request out.
    Crash,
    /// The request is carried out, then the node stops as if it was killed.
    ApplyThenCrash,
    /// The coordinator of the transactional id or group moves to the next node that can be it, and the request goes on. A
    /// coordinator without another node loads its log again.
    MoveCoordinator,
    /// The leaders of the request's partitions move to their next replicas, and the request goes on.
    MoveLeader,
    /// The node does nothing for that long, as one that is stopped by SIGSTOP: its connections stay open, and it stays
    /// leader and coordinator. Then the request goes on.
    Freeze(Duration),
}

/// One fault. It hits the next matching request, once, unless told otherwise.
///
/// ```
/// use std::time::Duration;
/// use kafka_2pc::broker::{Api, Fault, Reaction};
///
/// // The answer to the second commit of this id is lost.
/// Fault::on(Api::EndTxn, Reaction::ApplyThenDrop).id("orders-0").nth(2);
/// // A third of everything that node 2 is asked comes 50 ms late; the same third in every run.
/// Fault::on_any(Reaction::Delay(Duration::from_millis(50))).node(2).probability(0.33, 42);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub(super) condition: Condition,
    pub(super) reaction: Reaction,
}

impl Fault {
    /// Hits the next request of an API.
    #[must_use]
    pub fn on(api: Api, reaction: Reaction) -> Self {
        Self { condition: Condition { api: Some(api), ..Condition::default() }, reaction }
    }

    /// Hits the next request, whatever it is.
    #[must_use]
    pub fn on_any(reaction: Reaction) -> Self {
        Self { condition: Condition::default(), reaction }
    }

    /// Only requests that this node gets.
    #[must_use]
    pub fn node(mut self, node: i32) -> Self {
        self.condition.node = Some(node);
        self
    }

    /// Only requests that name this: a transactional id, a group or a topic.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.condition.id = Some(id.into());
        self
    }

    /// Only requests of clients with this `client.id`.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.condition.client_id = Some(client_id.into());
        self
    }

    /// Begins with the `nth` matching request from now on: 1 is the next one. 0 counts as 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.condition.skip = nth.saturating_sub(1);
        self
    }

    /// Hits this many requests, one after another.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.condition.left = times;
        self
    }

    /// Hits until it is removed.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    /// Hits each matching request with this probability, from 0 to 1, until it is removed. The same seed hits the same
    /// ones.
    #[must_use]
    pub fn probability(mut self, probability: f64, seed: u64) -> Self {
        self.condition.chance = Some((probability, seed));
        self.always()
    }
}

/// A fault that was injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub(super) u64);
