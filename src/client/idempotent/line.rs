//! Who waits for memory, in the order of asking.

use std::collections::VecDeque;

/// Those who wait, and for how much.
///
/// What they wait for is left for them: whoever comes later takes of the rest, so that large records are not overtaken by small
/// ones for ever. None of them holds a lock, nor what others could have: one who is not polled keeps nobody from the rest.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// By their places.
    waiting: VecDeque<(Place, usize)>,
    /// Of all of them: as many as there are can't pass this.
    bytes: u128,
    next: u64,
}

/// Whose turn is when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

impl Line {
    /// True if nobody waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A place at the end, for so many bytes.
    pub(super) fn join(&mut self, bytes: usize) -> Place {
        let place = Place(self.next);
        self.next += 1;
        self.waiting.push_back((place, bytes));
        self.bytes += bytes as u128;
        place
    }

    /// Bytes that those want who came before this one; before everybody else without a place. Counted until they are more than
    /// `room`, which leaves nothing: many may wait, and all of them ask when memory becomes free.
    pub(super) fn before(&self, place: Option<Place>, room: usize) -> usize {
        let Some(place) = place else { return usize::try_from(self.bytes).unwrap_or(usize::MAX) };
        let mut sum = 0usize;
        for (_, bytes) in self.waiting.iter().take_while(|(other, _)| *other < place) {
            sum = sum.saturating_add(*bytes);
            if sum > room {
                break;
            }
        }
        sum
    }

    /// True if somebody is left who may have waited for this one.
    pub(super) fn leave(&mut self, place: Place) -> bool {
        if let Ok(at) = self.waiting.binary_search_by_key(&place, |(place, _)| *place) {
            let left = self.waiting.remove(at);
            self.bytes -= left.map_or(0, |(_, bytes)| bytes as u128);
        }
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_those_before_want_is_left_for_them() {
        let mut line = Line::default();
        assert_eq!(line.before(None, 0), 0);
        let places = [10, 20, usize::MAX].map(|bytes| line.join(bytes));
        assert_eq!(places.map(|place| line.before(Some(place), 99)), [0, 10, 30]);
        assert_eq!(
            line.before(Some(places[2]), 9),
            10,
            "no more than is needed to know that there is no room"
        );
        assert_eq!(line.before(None, 0), usize::MAX);
        assert!(line.leave(places[0]) && line.leave(places[2]));
        assert_eq!((line.before(Some(places[1]), 99), line.before(None, 0)), (0, 20));
        assert!(!line.leave(places[1]) && !line.leave(places[1]));
        assert_eq!(line.before(None, 0), 0);
    }
}
