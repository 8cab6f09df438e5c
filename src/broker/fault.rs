//! Faults as data: which request, and what happens to it instead.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::wire::api::Api;

/// What happens to a request that a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// It is answered with this error code and not carried out.
    ErrorCode(i16),
    /// The connection is closed; nothing is carried out.
    Drop,
    /// It is carried out, and the connection is closed instead of an answer.
    ApplyThenDrop,
    /// It is carried out that much later. The connection serves nothing else meanwhile.
    Delay(Duration),
}

/// One fault: it hits once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The API whose requests are counted.
    pub api: Api,
    /// The node that they must reach; `None` is any.
    pub node: Option<i32>,
    /// Which of the matching requests from now on is hit: 1 is the next one. 0 counts as 1.
    pub nth: u64,
    /// What happens to it.
    pub reaction: Reaction,
}

/// The faults that wait, and how many requests of each API came.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    waiting: Vec<Fault>,
    seen: BTreeMap<Api, u64>,
}

impl Faults {
    pub(crate) fn inject(&mut self, fault: Fault) {
        self.waiting.push(Fault { nth: fault.nth.max(1), ..fault });
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn seen(&self, api: Api) -> u64 {
        self.seen.get(&api).copied().unwrap_or(0)
    }

    /// Counts a request, and takes the reaction of the first fault whose turn it is.
    pub(crate) fn on_request(&mut self, api: Api, node: i32) -> Option<Reaction> {
        *self.seen.entry(api).or_default() += 1;
        let matching = self.waiting.iter_mut().filter(|f| f.api == api && f.node.is_none_or(|n| n == node));
        matching.for_each(|fault| fault.nth -= 1);
        let hit = self.waiting.iter().position(|f| f.nth == 0)?;
        let reaction = self.waiting.remove(hit).reaction;
        // Another fault for the same request has had its turn as well: it waits for the next one.
        self.waiting.iter_mut().filter(|f| f.nth == 0).for_each(|f| f.nth = 1);
        Some(reaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(node: Option<i32>, nth: u64, code: i16) -> Fault {
        Fault { api: Api::EndTxn, node, nth, reaction: Reaction::ErrorCode(code) }
    }

    #[test]
    fn a_fault_hits_the_nth_matching_request_once() {
        let mut faults = Faults::default();
        faults.inject(fault(Some(2), 2, 51));
        let hits: Vec<_> = [1, 2, 1, 2, 2].iter().map(|n| faults.on_request(Api::EndTxn, *n)).collect();
        assert_eq!(hits, [None, None, None, Some(Reaction::ErrorCode(51)), None]);
        assert_eq!(faults.seen(Api::EndTxn), 5);
        assert_eq!(faults.seen(Api::Fetch), 0);
    }

    #[test]
    fn two_faults_of_one_request_hit_one_after_the_other() {
        let mut faults = Faults::default();
        faults.inject(fault(None, 1, 51));
        faults.inject(fault(None, 1, 14));
        let hits: Vec<_> = (0..3).map(|_| faults.on_request(Api::EndTxn, 1)).collect();
        assert_eq!(hits, [Some(Reaction::ErrorCode(51)), Some(Reaction::ErrorCode(14)), None]);
    }
}
