//! Which records of a transaction are in a batch, so that one which a broker refuses can be named.

use std::ops::RangeInclusive;

/// The numbers of a batch's records: the place of each in its transaction, from 0, in the order in which they were taken.
///
/// A batch holds what goes to one partition, so its numbers have gaps. A gap takes a byte, mostly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    first: u64,
    last: u64,
    count: usize,
    /// The distances from one number to the next, seven bits a byte, the lowest first; the highest bit says "more".
    gaps: Vec<u8>,
}

/// The records that a broker refused, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Culprits {
    /// These.
    Named(Vec<u64>),
    /// At least one of these; the broker did not say which.
    Among(RangeInclusive<u64>),
}

impl Numbers {
    /// Adds the next record's number, which is above all before.
    pub fn push(&mut self, number: u64) {
        if self.count == 0 {
            self.first = number;
        } else {
            let mut gap = number.saturating_sub(self.last);
            while gap > 0x7f {
                self.gaps.push((gap & 0x7f) as u8 | 0x80);
                gap >>= 7;
            }
            self.gaps.push((gap & 0x7f) as u8);
        }
        self.last = number;
        self.count += 1;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first `count` numbers, and the others.
    #[must_use]
    pub fn split_at(&self, count: usize) -> (Self, Self) {
        let (mut first, mut others) = (Self::default(), Self::default());
        for (place, number) in self.iter().enumerate() {
            if place < count { first.push(number) } else { others.push(number) }
        }
        (first, others)
    }

    /// The numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut gaps = self.gaps.iter();
        let mut next = (self.count > 0).then_some(self.first);
        std::iter::from_fn(move || {
            let number = next?;
            let (mut gap, mut shift) = (0, 0);
            next = loop {
                let Some(byte) = gaps.next() else { break None };
                gap |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break Some(number + gap);
                }
            };
            Some(number)
        })
    }

    /// The records that a broker means: those at these places of the batch. Without any, or if there is no such place, it
    /// may be every one of the batch; of a batch of one it is that one. `None` for a batch without records.
    #[must_use]
    pub fn culprits(&self, places: &[usize]) -> Option<Culprits> {
        if self.count == 0 {
            return None;
        }
        if self.count == 1 {
            return Some(Culprits::Named(vec![self.first]));
        }
        if places.is_empty() || places.iter().any(|place| *place >= self.count) {
            return Some(Culprits::Among(self.first..=self.last));
        }
        let numbers = self.iter().enumerate().filter(|(place, _)| places.contains(place));
        Some(Culprits::Named(numbers.map(|(_, number)| number).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(all: &[u64]) -> Numbers {
        let mut numbers = Numbers::default();
        all.iter().for_each(|number| numbers.push(*number));
        numbers
    }

    #[test]
    fn every_gap_is_kept() {
        for all in [&[][..], &[7], &[0, 1, 2], &[5, 132, 133, 261, 1 << 40], &[0, 127, 255, 16_639]] {
            assert_eq!(numbers(all).iter().collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn numbers_are_split_in_order() {
        let (first, others) = numbers(&[3, 5, 200, 201]).split_at(3);
        assert_eq!((first, others), (numbers(&[3, 5, 200]), numbers(&[201])));
    }

    #[test]
    fn a_record_is_named_by_its_place_in_the_batch() {
        let n = numbers(&[3, 5, 200, 201]);
        assert_eq!(n.culprits(&[3, 1]), Some(Culprits::Named(vec![5, 201])));
        assert_eq!(n.culprits(&[]), Some(Culprits::Among(3..=201)));
        assert_eq!(
            n.culprits(&[4]),
            Some(Culprits::Among(3..=201)),
            "a place that is not there says nothing"
        );
        assert_eq!(numbers(&[9]).culprits(&[]), Some(Culprits::Named(vec![9])), "there is no other");
        assert_eq!(numbers(&[]).culprits(&[0]), None);
    }
}
