//! Kafka's variable-length integers: seven bits a byte, lowest first; signed ones are zigzag encoded.
//!
//! A zigzag varint and a zigzag varlong of the same number are the same bytes, so there is one writer.

/// The longest encoding of a 64-bit number, in bytes.
const LONGEST: usize = 10;

/// The zigzag form: 0, -1, 1, -2, .. become 0, 1, 2, 3, ..
pub(crate) fn zigzag(value: i64) -> u64 {
    u64::from_ne_bytes(((value << 1) ^ (value >> 63)).to_ne_bytes())
}

/// The number behind a zigzag form.
pub(crate) fn unzigzag(bits: u64) -> i64 {
    let magnitude = i64::from_ne_bytes((bits >> 1).to_ne_bytes());
    if bits & 1 == 0 { magnitude } else { !magnitude }
}

/// How many bytes `bits` takes.
pub(crate) fn unsigned_len(bits: u64) -> usize {
    // One byte for every seven bits that are needed to write the number, and one for zero.
    let needed = u64::BITS - (bits | 1).leading_zeros();
    needed.div_ceil(7) as usize
}

/// How many bytes the zigzag form of `value` takes.
pub(crate) fn signed_len(value: i64) -> usize {
    unsigned_len(zigzag(value))
}

/// A length or count as a signed number. Lengths beyond `i64` do not exist in memory.
pub(crate) fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// A few numbers collected on the stack, to be appended to a buffer in one go.
pub(crate) struct Scratch {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl Scratch {
    /// Room for a record's numbers: 5 + 1 + 10 + 5 + 5 bytes, and for four numbers of any kind.
    const CAPACITY: usize = 4 * LONGEST;

    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    pub(crate) fn unsigned(&mut self, mut bits: u64) {
        while bits >= 0x80 {
            self.byte(bits.to_le_bytes()[0] | 0x80);
            bits >>= 7;
        }
        self.byte(bits.to_le_bytes()[0]);
    }

    pub(crate) fn signed(&mut self, value: i64) {
        self.unsigned(zigzag(value));
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_encoding() {
        for value in [0, 1, -1, 63, 64, -64, -65, 8191, 8192, i64::from(i32::MAX), i64::MAX, i64::MIN] {
            let mut scratch = Scratch::new();
            scratch.signed(value);
            assert_eq!(scratch.as_slice().len(), signed_len(value), "{value}");
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn bytes_are_those_of_the_protocol_guide() {
        let mut scratch = Scratch::new();
        scratch.signed(-1);
        scratch.signed(300);
        scratch.unsigned(300);
        assert_eq!(scratch.as_slice(), [0x01, 0xd8, 0x04, 0xac, 0x02]);
    }
}
