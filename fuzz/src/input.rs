//! An input as a sequence of decisions.

use kafka_2pc::wire::guard::sample::Choices;

/// The bytes of an input, from the front: one byte, one decision, zeros behind the end. So a seed means the same for
/// ever, and a mutation changes one decision.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Decisions by these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True when every decision was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// A number below `bound`, which is not zero.
    pub fn pick(&mut self, bound: u8) -> u8 {
        self.byte() % bound.max(1)
    }

    /// An index into a list of `len` elements; `None` if there are none.
    pub fn index(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| usize::from(self.byte()) % len)
    }

    /// The next bytes as an array, filled up with zeros.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        array[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        array
    }

    /// Up to this many bytes, fewer at the end.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Everything that is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

impl Choices for Input<'_> {
    fn below(&mut self, bound: u32) -> u32 {
        if bound <= 256 { u32::from(self.byte()) % bound } else { u32::from_be_bytes(self.array()) % bound }
    }
}
