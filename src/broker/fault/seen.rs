//! The faults that wait, and how often each has hit.

use std::collections::BTreeMap;

use super::condition::{Condition, Seen};
use super::{Fault, FaultId, Reaction};
use crate::broker::journal::Keys;
use crate::wire::api::Api;

/// The faults that wait, and how many requests of each API came.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    waiting: Vec<(FaultId, Fault)>,
    hits: BTreeMap<FaultId, u64>,
    seen: BTreeMap<Api, u64>,
    next: u64,
}

impl Faults {
    pub(crate) fn inject(&mut self, fault: Fault) -> FaultId {
        let id = FaultId(self.next);
        self.next += 1;
        self.hits.insert(id, 0);
        self.waiting.push((id, fault));
        id
    }

    pub(crate) fn remove(&mut self, id: FaultId) {
        self.waiting.retain(|(known, _)| *known != id);
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn hits(&self, id: FaultId) -> u64 {
        self.hits.get(&id).copied().unwrap_or(0)
    }

    pub(crate) fn seen(&self, api: Api) -> u64 {
        self.seen.get(&api).copied().unwrap_or(0)
    }

    /// Counts a request that came.
    pub(crate) fn count(&mut self, api: Api) {
        *self.seen.entry(api).or_default() += 1;
    }

    /// Takes the reaction of the first fault whose turn it is. Another one for the same request waits for the next.
    pub(crate) fn on_request(&mut self, request: &Seen<'_>) -> Option<Reaction> {
        let mut hit = None;
        for (id, fault) in &mut self.waiting {
            let is_cut = matches!(fault.reaction, Reaction::CutRequest(_));
            if is_cut || !fault.condition.matches(request) {
                continue;
            }
            // One whose turn it is waits while an earlier one hits.
            let ready = hit.is_some() && fault.condition.skip == 0;
            if !ready && fault.condition.passes() && hit.is_none() {
                fault.condition.left = fault.condition.left.saturating_sub(1);
                hit = Some((*id, fault.reaction));
            }
        }
        let (id, reaction) = hit?;
        self.took(id);
        Some(reaction)
    }

    /// After how many bytes a request whose first bytes came is to be cut. Its names are not known yet.
    pub(crate) fn cut(&mut self, api: Api, node: i32) -> Option<usize> {
        let keys = Keys::default();
        let request = Seen { api, node, client_id: "", keys: &keys };
        let hit = self.waiting.iter_mut().find_map(|(id, fault)| {
            let Reaction::CutRequest(bytes) = fault.reaction else { return None };
            let condition = &mut fault.condition;
            let of_its_kind = Condition { id: None, client_id: None, ..condition.clone() };
            if !of_its_kind.matches(&request) || !condition.passes() {
                return None;
            }
            condition.left = condition.left.saturating_sub(1);
            Some((*id, bytes))
        });
        let (id, bytes) = hit?;
        self.took(id);
        Some(bytes)
    }

    fn took(&mut self, id: FaultId) {
        *self.hits.entry(id).or_default() += 1;
        self.waiting.retain(|(_, fault)| fault.condition.left > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(nth: u64, code: i16) -> Fault {
        Fault::on(Api::EndTxn, Reaction::ErrorCode(code)).nth(nth)
    }

    fn hits(faults: &mut Faults, nodes: &[i32]) -> Vec<Option<i16>> {
        let keys = Keys { transactional_id: Some("x".into()), ..Keys::default() };
        let request = |node| Seen { api: Api::EndTxn, node, client_id: "c", keys: &keys };
        let mut hit = |node| faults.on_request(&request(node));
        nodes
            .iter()
            .map(|node| match hit(*node) {
                Some(Reaction::ErrorCode(code)) => Some(code),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_fault_hits_the_nth_matching_request_once() {
        let mut faults = Faults::default();
        let id = faults.inject(fault(2, 51).node(2));
        assert_eq!(hits(&mut faults, &[1, 2, 1, 2, 2]), [None, None, None, Some(51), None]);
        assert_eq!(faults.hits(id), 1);
    }

    #[test]
    fn two_faults_of_one_request_hit_one_after_the_other() {
        let mut faults = Faults::default();
        faults.inject(fault(1, 51));
        faults.inject(fault(1, 14));
        assert_eq!(hits(&mut faults, &[1, 1, 1]), [Some(51), Some(14), None]);
    }

    #[test]
    fn a_fault_may_hit_several_times_or_until_it_is_removed() {
        let mut faults = Faults::default();
        faults.inject(fault(2, 51).times(2));
        assert_eq!(hits(&mut faults, &[1, 1, 1, 1]), [None, Some(51), Some(51), None]);
        let id = faults.inject(fault(1, 14).always());
        assert_eq!(hits(&mut faults, &[1, 1]), [Some(14), Some(14)]);
        faults.remove(id);
        assert_eq!(hits(&mut faults, &[1]), [None]);
    }

    #[test]
    fn names_and_clients_are_matched() {
        let mut faults = Faults::default();
        faults.inject(fault(1, 51).id("y").always());
        faults.inject(fault(1, 51).client_id("d").always());
        assert_eq!(hits(&mut faults, &[1]), [None]);
        faults.inject(fault(1, 14).id("x").client_id("c"));
        assert_eq!(hits(&mut faults, &[1]), [Some(14)]);
    }

    #[test]
    fn the_same_seed_hits_the_same_requests() {
        let run = |seed| {
            let mut faults = Faults::default();
            faults.inject(fault(1, 51).probability(0.5, seed));
            hits(&mut faults, &[1; 200])
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let count = run(7).iter().flatten().count();
        assert!((70..130).contains(&count), "{count}");
    }
}
