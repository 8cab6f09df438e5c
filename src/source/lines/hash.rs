//! A running hash of the input, which can be kept and continued.
//!
//! It tells whether the part of the input that was consumed is still the same when a job goes on. The algorithm is
//! XXH64 with seed 0: fast, and its state is small and well defined, so that it can lie in a checkpoint; the hashes
//! of libraries cannot be stored half way. It protects against mistakes, not against an adversary.

use crate::proto::sealed::{Fields, Reader, StateError};

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// Bytes that are taken in at once.
const STRIPE_BYTES: usize = 32;

/// The state of an XXH64 after some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputHash {
    lanes: [u64; 4],
    total: u64,
    /// The bytes since the last whole stripe.
    rest: [u8; STRIPE_BYTES],
    rest_len: usize,
}

impl Default for InputHash {
    fn default() -> Self {
        let lanes = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];
        Self { lanes, total: 0, rest: [0; STRIPE_BYTES], rest_len: 0 }
    }
}

impl InputHash {
    /// Takes the next bytes; how they are cut into calls does not matter.
    pub fn update(&mut self, bytes: &[u8]) {
        self.total = self.total.wrapping_add(bytes.len() as u64);
        let mut bytes = bytes;
        if self.rest_len > 0 {
            let (taken, left) = bytes.split_at(bytes.len().min(STRIPE_BYTES - self.rest_len));
            self.rest[self.rest_len..self.rest_len + taken.len()].copy_from_slice(taken);
            self.rest_len += taken.len();
            if self.rest_len < STRIPE_BYTES {
                return;
            }
            let stripe = self.rest;
            self.stripe(&stripe);
            self.rest_len = 0;
            bytes = left;
        }
        let mut stripes = bytes.chunks_exact(STRIPE_BYTES);
        for stripe in &mut stripes {
            self.stripe(stripe);
        }
        let left = stripes.remainder();
        self.rest[..left.len()].copy_from_slice(left);
        self.rest_len = left.len();
    }

    /// The hash of all bytes so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let start = if self.total < STRIPE_BYTES as u64 {
            c.wrapping_add(P5)
        } else {
            let joined = a
                .rotate_left(1)
                .wrapping_add(b.rotate_left(7))
                .wrapping_add(c.rotate_left(12))
                .wrapping_add(d.rotate_left(18));
            self.lanes.iter().fold(joined, |h, lane| (h ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4))
        };
        let mut hash = start.wrapping_add(self.total);
        let mut words = self.rest[..self.rest_len].chunks_exact(8);
        for word in &mut words {
            hash = (hash ^ round(0, little_endian(word))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        }
        let mut tail = words.remainder();
        if tail.len() >= 4 {
            let (half, left) = tail.split_at(4);
            hash = (hash ^ little_endian(half).wrapping_mul(P1))
                .rotate_left(23)
                .wrapping_mul(P2)
                .wrapping_add(P3);
            tail = left;
        }
        for byte in tail {
            hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
        hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
        hash ^ (hash >> 32)
    }

    /// How many bytes were taken.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn write(&self, fields: Fields) -> Fields {
        let lanes = self.lanes.iter().fold(fields, |fields, lane| fields.u64(*lane));
        lanes.u64(self.total).bytes(&self.rest[..self.rest_len])
    }

    pub(crate) fn read(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        let lanes = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let total = fields.u64()?;
        let left = fields.bytes()?;
        if left.len() as u64 != total % STRIPE_BYTES as u64 {
            return fields.damaged("the running hash contradicts itself");
        }
        let mut rest = [0; STRIPE_BYTES];
        rest[..left.len()].copy_from_slice(left);
        Ok(Self { lanes, total, rest, rest_len: left.len() })
    }

    fn stripe(&mut self, stripe: &[u8]) {
        for (lane, word) in self.lanes.iter_mut().zip(stripe.chunks_exact(8)) {
            *lane = round(*lane, little_endian(word));
        }
    }
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(bytes: &[u8]) -> u64 {
        let mut hash = InputHash::default();
        hash.update(bytes);
        hash.value()
    }

    #[test]
    fn is_xxh64() {
        assert_eq!(hash(b""), 0xef46_db37_51d8_e999);
        assert_eq!(hash(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(hash(b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(hash(b"Nobody inspects the spammish repetition"), 0xfbce_a83c_8a37_8bf1);
    }

    proptest! {
        #[test]
        fn goes_on_where_it_was_kept(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..200usize) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut kept = InputHash::default();
            kept.update(first);
            let sealed = crate::proto::sealed::Seal { what: "hash", magic: *b"HASH", newest: 1 };
            let stored = sealed.seal(kept.write(Fields::default()));
            let mut goes_on = InputHash::read(&mut sealed.open(&stored).unwrap()).unwrap();
            prop_assert_eq!(&goes_on, &kept);
            goes_on.update(second);
            prop_assert_eq!(goes_on.value(), hash(&bytes));
            prop_assert_eq!(goes_on.total(), bytes.len() as u64);
        }
    }
}
