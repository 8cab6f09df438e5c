//! Faults, access rules, and the journal.

use super::Broker;
use crate::broker::access::Denial;
use crate::broker::fault::{Fault, FaultId};
use crate::broker::journal::JournalEntry;
use crate::wire::api::Api;

impl Broker {
    /// Lets a fault happen. Of several that match a request, the first that was injected hits it.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.shared.faults().inject(fault)
    }

    /// Forgets a fault.
    pub fn remove_fault(&self, fault: FaultId) {
        self.shared.faults().remove(fault);
    }

    /// Forgets all faults.
    pub fn clear_faults(&self) {
        self.shared.faults().clear();
    }

    /// How many requests a fault has hit.
    #[must_use]
    pub fn hits(&self, fault: FaultId) -> u64 {
        self.shared.faults().hits(fault)
    }

    /// Carries out the requests that wait for it ([`Reaction::HoldUntilDelivered`](super::super::Reaction)) and whose
    /// connections are gone.
    pub fn deliver_held(&self) {
        self.shared.deliver_held();
    }

    /// Denies something from now on. Everything that is not denied is allowed.
    pub fn deny(&self, denial: Denial) {
        self.shared.denials_mut().push(denial);
    }

    /// Removes every equal rule.
    pub fn allow(&self, denial: &Denial) {
        self.shared.denials_mut().retain(|known| known != denial);
    }

    /// The newest 100,000 requests, in the order in which they came.
    #[must_use]
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.shared.journal().entries()
    }

    /// Forgets the requests that came until now.
    pub fn clear_journal(&self) {
        self.shared.journal().clear();
    }

    /// How many requests of an API came to all nodes since the start.
    #[must_use]
    pub fn requests(&self, api: Api) -> u64 {
        self.shared.faults().seen(api)
    }
}
