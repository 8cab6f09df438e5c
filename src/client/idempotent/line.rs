//! Who waits for memory, in the order of asking.

use std::collections::VecDeque;

/// Those who wait, and for how much.
///
/// What they wait for is left for them: whoever comes later takes of the rest, so that large records are not overtaken by small
/// ones for ever. None of them holds a lock, nor what others could have: one who is not polled keeps nobody from the rest.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: VecDeque<(Place, usize)>,
    bytes: usize,
    next: u64,
}

/// Whose turn is when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Line {
    /// A place at the end, for so many bytes.
    pub(super) fn join(&mut self, bytes: usize) -> Place {
        let place = Place(self.next);
        self.next += 1;
        self.waiting.push_back((place, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        place
    }

    /// Bytes that those want who came before this one; before everybody else without a place.
    pub(super) fn before(&self, place: Option<Place>) -> usize {
        let Some(place) = place else { return self.bytes };
        let before = self.waiting.iter().take_while(|(other, _)| *other != place);
        before.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// True if somebody is left who may have waited for this one.
    pub(super) fn leave(&mut self, place: Place) -> bool {
        self.waiting.retain(|(other, _)| *other != place);
        self.bytes = self.waiting.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_those_before_want_is_left_for_them() {
        let mut line = Line::default();
        assert_eq!(line.before(None), 0);
        let places = [10, 20, usize::MAX].map(|bytes| line.join(bytes));
        assert_eq!(places.map(|place| line.before(Some(place))), [0, 10, 30]);
        assert_eq!(line.before(None), usize::MAX);
        assert!(line.leave(places[0]) && line.leave(places[2]));
        assert_eq!((line.before(Some(places[1])), line.before(None)), (0, 20));
        assert!(!line.leave(places[1]));
        assert_eq!(line.before(None), 0);
    }
}
