//! Transactions: their coordinators, markers, timeouts, and the log that coordinators write.

use super::Broker;
use crate::broker::election::NewLeader;
use crate::broker::error::BrokerError;
use crate::broker::markers;
use crate::wire::versions::TransactionVersion;

impl Broker {
    /// Finalizes another level of `transaction.version`, as UpdateFeatures does on a running cluster.
    pub fn set_transaction_version(&self, level: TransactionVersion) {
        self.shared.cluster().transactions.set_level(level);
    }

    /// The node that coordinates a transactional id, if one does.
    #[must_use]
    pub fn transaction_coordinator(&self, transactional_id: &str) -> Option<i32> {
        self.shared.cluster().transaction_coordinator(transactional_id).map(|(node, _)| node)
    }

    /// Lets `node` coordinate a transactional id from now on; others that share its partition of `__transaction_state`
    /// move with it. The new coordinator knows what was in the log, and sends outstanding markers again.
    ///
    /// # Errors
    /// [`BrokerError::CannotLead`] when the node holds no replica of that partition or is down.
    pub fn move_coordinator(&self, transactional_id: &str, node: i32) -> Result<(), BrokerError> {
        let at = self.shared.cluster().transaction_partition(transactional_id);
        self.move_leader(&at, node)
    }

    /// Leaves a transactional id without coordinator, until [`Self::move_coordinator`], or until a node starts or stops.
    pub fn take_coordinator(&self, transactional_id: &str) {
        let at = self.shared.cluster().transaction_partition(transactional_id);
        self.shared.cluster().move_leader(&at, NewLeader::Nobody);
        self.shared.announce();
    }

    /// Holds every marker back: transactions that end from now on stay in their `Prepare` state.
    pub fn hold_markers(&self) {
        self.shared.hold_markers(true);
    }

    /// Lets held markers go.
    pub fn release_markers(&self) {
        self.shared.hold_markers(false);
    }

    /// Aborts every transaction whose timeout has passed, now instead of at the next sweep.
    pub fn sweep_timeouts(&self) {
        markers::sweep(&self.shared);
    }

    /// Forgets a transactional id, as `transactional.id.expiration.ms` would; false when it is unknown or its
    /// transaction is still open.
    #[must_use]
    pub fn expire_transactional_id(&self, transactional_id: &str) -> bool {
        self.shared.cluster().transactions.expire(transactional_id)
    }

    /// Lets a transactional id look as if it had been used very often: the next InitProducerId grants `epoch`, of which
    /// 32766 is the last before the producer id changes. False when the id is unknown or not idle.
    #[must_use]
    pub fn wear_out(&self, transactional_id: &str, epoch: i16) -> bool {
        self.shared.cluster().transactions.wear_out(transactional_id, epoch)
    }

    /// Forgets every id that has been idle for `transactional.id.expiration.ms`, now instead of at the next search.
    pub fn expire_transactional_ids(&self) {
        markers::expire(&self.shared);
    }

    /// Holds the coordinators' log: a transition that begins from now on lasts. Its request gets no answer, and others of
    /// the same id CONCURRENT_TRANSACTIONS, until [`Self::release_transaction_log`]. A transition whose coordinator
    /// moves meanwhile is lost. (Partitions that Produce 12 and TxnOffsetCommit 5 add by themselves are not held.)
    pub fn hold_transaction_log(&self) {
        self.shared.cluster().transactions.hold_appends();
    }

    /// Ends the transitions that were held.
    pub fn release_transaction_log(&self) {
        self.shared.cluster().transactions.release_appends();
        self.shared.announce();
    }

    /// Lets the transitions that are held fail: they did not happen, and their requests are answered NOT_COORDINATOR.
    pub fn fail_transaction_log(&self) {
        self.shared.cluster().transactions.fail_appends();
        self.shared.announce();
    }

    /// Holds fences: an InitProducerId that meets an open transaction is answered, and the abort that it leads to is not
    /// begun. A commit that comes now makes Kafka's coordinator throw, and is answered UNKNOWN_SERVER_ERROR.
    pub fn hold_fences(&self) {
        self.shared.cluster().transactions.hold_fences();
    }

    /// Lets held fences become aborts.
    pub fn release_fences(&self) {
        let now_ms = self.shared.now_ms();
        let fenced = self.shared.cluster().transactions.release_fences(now_ms);
        fenced.into_iter().for_each(|fence| markers::follow(&self.shared, fence));
    }
}
