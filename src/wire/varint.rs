//! Kafka's variable-length integers: seven bits a byte, lowest first; signed ones are zigzag encoded.
//!
//! A zigzag varint and a zigzag varlong of the same number are the same bytes, so there is one writer.

/// The zigzag form: 0, -1, 1, -2, .. become 0, 1, 2, 3, ..
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    u64::from_ne_bytes(((value << 1) ^ (value >> 63)).to_ne_bytes())
}

/// The number behind a zigzag form.
#[inline]
pub(crate) fn unzigzag(bits: u64) -> i64 {
    let magnitude = i64::from_ne_bytes((bits >> 1).to_ne_bytes());
    if bits & 1 == 0 { magnitude } else { !magnitude }
}

/// How many bytes `bits` takes.
#[inline]
pub(crate) fn unsigned_len(bits: u64) -> usize {
    // One byte for every seven bits that are needed to write the number, and one for zero. 9/64 is a little less than 1/7,
    // and for no number of bits so much less that it shows.
    let highest = (bits | 1).ilog2();
    ((highest * 9 + 73) / 64) as usize
}

/// How many bytes the zigzag form of `value` takes.
#[inline]
pub(crate) fn signed_len(value: i64) -> usize {
    unsigned_len(zigzag(value))
}

/// A length or count as a signed number. Lengths beyond `i64` do not exist in memory.
#[inline]
pub(crate) fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// A few numbers collected on the stack, to be appended to a buffer in one go. In front of them is room for the length of
/// all that follows.
pub(crate) struct Scratch {
    bytes: [u8; Self::FIRST + Self::CAPACITY],
    start: usize,
    end: usize,
}

impl Scratch {
    /// Room for a record's numbers without its length: 1 + 10 + 5 + 5 + 5 bytes; and for three numbers of any kind.
    pub(crate) const CAPACITY: usize = 32;
    /// The longest length.
    const FIRST: usize = 5;

    #[inline]
    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::FIRST + Self::CAPACITY], start: Self::FIRST, end: Self::FIRST }
    }

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes[self.end] = byte;
        self.end += 1;
    }

    #[inline]
    pub(crate) fn unsigned(&mut self, mut bits: u64) {
        if (0x80..0x4000).contains(&bits) {
            self.bytes[self.end..self.end + 2].copy_from_slice(&two(bits));
            self.end += 2;
            return;
        }
        while bits >= 0x80 {
            self.byte(bits.to_le_bytes()[0] | 0x80);
            bits >>= 7;
        }
        self.byte(bits.to_le_bytes()[0]);
    }

    #[inline]
    pub(crate) fn signed(&mut self, value: i64) {
        self.unsigned(zigzag(value));
    }

    /// Puts a length of at most 32 bits in front of everything, once.
    #[inline]
    pub(crate) fn put_length(&mut self, length: usize) {
        let mut bits = zigzag(signed(length));
        if (0x80..0x4000).contains(&bits) {
            self.start = Self::FIRST - 2;
            self.bytes[Self::FIRST - 2..Self::FIRST].copy_from_slice(&two(bits));
            return;
        }
        self.start = Self::FIRST - unsigned_len(bits).min(Self::FIRST);
        for byte in &mut self.bytes[self.start..Self::FIRST] {
            *byte = bits.to_le_bytes()[0] | 0x80;
            bits >>= 7;
        }
        self.bytes[Self::FIRST - 1] &= 0x7f;
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Writes the numbers to the front of `room`, which has [`CAPACITY`](Self::CAPACITY) bytes at least; what is left of it.
    /// A copy of constant length is two instructions, one of a length that varies is a call: so bytes without meaning are
    /// copied as well, and overwritten by what follows.
    #[inline]
    pub(crate) fn write<'a>(&self, room: &'a mut [u8]) -> &'a mut [u8] {
        room[..Self::CAPACITY].copy_from_slice(&self.bytes[self.start..self.start + Self::CAPACITY]);
        &mut room[self.len()..]
    }
}

/// A few numbers of one or two bytes in a register.
#[derive(Clone, Copy)]
pub(crate) struct Short {
    word: u64,
    /// How many bits of it are taken.
    bits: u32,
}

impl Short {
    /// Numbers from here on take more than two bytes.
    pub(crate) const LIMIT: u64 = 1 << 14;

    #[inline]
    pub(crate) fn new() -> Self {
        Self { word: 0, bits: 0 }
    }

    /// Adds a number below [`LIMIT`](Self::LIMIT); there is room for eight bytes.
    #[inline]
    pub(crate) fn put(&mut self, number: u64) {
        if number < 0x80 {
            self.word |= number << (self.bits & 63);
            self.bits = self.bits.wrapping_add(8);
        } else {
            let bytes = u64::from(u16::from_le_bytes(two(number)));
            self.word |= bytes << (self.bits & 63);
            self.bits = self.bits.wrapping_add(16);
        }
    }

    /// How many bytes they take.
    #[inline]
    pub(crate) fn len(self) -> usize {
        (self.bits / 8) as usize
    }

    /// Writes the numbers to the front of `room`, which has 8 bytes at least; what is left of it.
    #[inline]
    pub(crate) fn write(self, room: &mut [u8]) -> &mut [u8] {
        room[..8].copy_from_slice(&self.word.to_le_bytes());
        &mut room[self.len()..]
    }

    /// The same behind other numbers; `room` has 16 bytes at least.
    #[inline]
    pub(crate) fn write_behind<'a>(self, first: &Self, room: &'a mut [u8]) -> &'a mut [u8] {
        room[..8].copy_from_slice(&first.word.to_le_bytes());
        self.write(&mut room[first.len()..])
    }
}

/// A number of two bytes.
#[inline]
fn two(bits: u64) -> [u8; 2] {
    let [low, ..] = bits.to_le_bytes();
    let [high, ..] = (bits >> 7).to_le_bytes();
    [low | 0x80, high]
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
    fn a_length_stands_before_what_was_written() {
        for length in [0, 1, 63, 64, 8191, 8192, 1 << 20, 0x7fff_ffff] {
            let (mut all, mut rest) = (Scratch::new(), Scratch::new());
            all.signed(signed(length));
            for scratch in [&mut all, &mut rest] {
                scratch.byte(7);
                scratch.signed(-300);
            }
            rest.put_length(length);
            assert_eq!(rest.as_slice(), all.as_slice(), "{length}");
            let mut room = [0xff; 40];
            let left = rest.write(&mut room).len();
            assert_eq!(room[..40 - left], *all.as_slice());
        }
    }

    #[test]
    fn short_numbers_are_the_same_in_a_register() {
        for numbers in [[0, 0x7f, 0x80, 0x3fff], [0x3fff; 4], [0x1234, 1, 0x100, 0x7f]] {
            let (mut short, mut scratch) = (Short::new(), Scratch::new());
            for bits in numbers {
                short.put(bits);
                scratch.unsigned(bits);
            }
            let mut room = [0xff; 24];
            let left = short.write(&mut room).len();
            assert_eq!(room[..24 - left], *scratch.as_slice());
            let left = short.write_behind(&short, &mut room).len();
            assert_eq!(room[..24 - left], scratch.as_slice().repeat(2));
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
