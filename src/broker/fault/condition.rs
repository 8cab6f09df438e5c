//! Which requests a fault hits.

use crate::broker::journal::Keys;
use crate::wire::api::Api;

/// A request as conditions see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) api: Api,
    pub(crate) node: i32,
    pub(crate) client_id: &'a str,
    pub(crate) keys: &'a Keys,
}

/// Which requests are hit, and how many more.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(crate) api: Option<Api>,
    pub(crate) node: Option<i32>,
    pub(crate) id: Option<String>,
    pub(crate) client_id: Option<String>,
    /// How many matching requests go by before the first hit.
    pub(crate) skip: u64,
    /// How many hits are left.
    pub(crate) left: u64,
    /// The probability of a hit, and the state of the generator that decides.
    pub(crate) chance: Option<(f64, u64)>,
}

impl Default for Condition {
    fn default() -> Self {
        Self { api: None, node: None, id: None, client_id: None, skip: 0, left: 1, chance: None }
    }
}

impl Condition {
    /// Is this request of its kind?
    pub(super) fn matches(&self, request: &Seen<'_>) -> bool {
        self.api.is_none_or(|api| api == request.api)
            && self.node.is_none_or(|node| node == request.node)
            && self.client_id.as_deref().is_none_or(|id| id == request.client_id)
            && self.id.as_deref().is_none_or(|id| request.keys.names(id))
    }

    /// Lets a matching request pass by; true when it is one to hit.
    pub(super) fn passes(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.chance {
            None => true,
            Some((probability, state)) => draw(state) < *probability,
        }
    }
}

/// The next number of SplitMix64, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
