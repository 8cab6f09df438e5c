//! Reads numbers and slices from bytes that may end, or lie, anywhere.

use std::ops::Range;

use super::varint::unzigzag;

/// Why something could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes end too early.
    End,
    /// A variable-length integer has more bits than its type.
    Varint,
}

/// A position in bytes. Every read moves it, and none reads past the end.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads only `range` of `bytes`, with positions that count from the start of `bytes`.
    #[inline]
    pub(crate) fn within(bytes: &'a [u8], range: Range<usize>) -> Self {
        Self { bytes: &bytes[..range.end], at: range.start }
    }

    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes, as positions.
    #[inline]
    pub(crate) fn range(&mut self, len: usize) -> Result<Range<usize>, Fault> {
        if len > self.remaining() {
            return Err(Fault::End);
        }
        let start = self.at;
        self.at += len;
        Ok(start..self.at)
    }

    #[inline]
    pub(crate) fn slice(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let range = self.range(len)?;
        Ok(&self.bytes[range])
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(N)?);
        Ok(array)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Fault> {
        let byte = *self.bytes.get(self.at).ok_or(Fault::End)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn i16(&mut self) -> Result<i16, Fault> {
        self.array().map(i16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32, Fault> {
        self.array().map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self) -> Result<i64, Fault> {
        self.array().map(i64::from_be_bytes)
    }

    /// An unsigned varint of 32 bits.
    #[inline]
    pub(crate) fn unsigned(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.bits(5)?).map_err(|_| Fault::Varint)
    }

    /// Skips a section of tagged fields without looking into them (KIP-482).
    #[inline]
    pub(crate) fn skip_tagged_fields(&mut self) -> Result<(), Fault> {
        for _ in 0..self.unsigned()? {
            self.unsigned()?;
            let size = self.unsigned()?;
            self.range(usize::try_from(size).map_err(|_| Fault::End)?)?;
        }
        Ok(())
    }

    /// A zigzag varint of 32 bits.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<i32, Fault> {
        i32::try_from(unzigzag(u64::from(self.unsigned()?))).map_err(|_| Fault::Varint)
    }

    /// A zigzag varint of 64 bits.
    #[inline]
    pub(crate) fn varlong(&mut self) -> Result<i64, Fault> {
        self.bits(10).map(unzigzag)
    }

    /// Seven bits from each of at most `most` bytes. Most numbers take one or two.
    #[inline]
    fn bits(&mut self, most: u32) -> Result<u64, Fault> {
        match self.bytes.get(self.at..) {
            Some([first, ..]) if *first < 0x80 => {
                self.at += 1;
                Ok(u64::from(*first))
            }
            Some([first, second, ..]) if *second < 0x80 => {
                self.at += 2;
                Ok(u64::from(*first & 0x7f) | u64::from(*second) << 7)
            }
            Some(_) | None => self.long_bits(most),
        }
    }

    #[inline(never)]
    fn long_bits(&mut self, most: u32) -> Result<u64, Fault> {
        let mut bits = 0;
        for place in 0..most {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            let shift = 7 * place;
            if part << shift >> shift != part {
                return Err(Fault::Varint);
            }
            bits |= part << shift;
            if byte < 0x80 {
                return Ok(bits);
            }
        }
        Err(Fault::Varint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::varint::Scratch;

    #[test]
    fn integers_come_back_at_both_ends_of_their_range() {
        for value in [0, 1, -1, 63, 64, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN] {
            let mut scratch = Scratch::new();
            scratch.signed(value);
            let mut cursor = Cursor::new(scratch.as_slice());
            assert_eq!(cursor.varlong(), Ok(value));
            assert_eq!(cursor.remaining(), 0);
            let narrow = Cursor::new(scratch.as_slice()).varint();
            assert_eq!(narrow, i32::try_from(value).map_err(|_| Fault::Varint));
        }
    }

    #[test]
    fn overlong_and_unfinished_integers_are_refused() {
        assert_eq!(Cursor::new(&[0x80; 5]).unsigned(), Err(Fault::Varint));
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x10]).unsigned(), Err(Fault::Varint));
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unsigned(), Ok(u32::MAX));
        assert_eq!(Cursor::new(&[0x80; 10]).varlong(), Err(Fault::Varint));
        let mut ten = [0xff; 10];
        ten[9] = 2;
        assert_eq!(Cursor::new(&ten).varlong(), Err(Fault::Varint));
        assert_eq!(Cursor::new(&[0x80, 0x80]).unsigned(), Err(Fault::End));
        assert_eq!(Cursor::new(&[1, 2, 3]).i32(), Err(Fault::End));
    }

    #[test]
    fn varints_of_more_than_32_bits_are_refused() {
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unsigned(), Ok(u32::MAX));
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).unsigned(), Err(Fault::Varint));
        assert_eq!(Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).unsigned(), Err(Fault::Varint));
        assert_eq!(Cursor::new(&[0x80]).unsigned(), Err(Fault::End));
    }

    #[test]
    fn a_count_of_tagged_fields_is_only_as_good_as_the_bytes_behind_it() {
        let mut hostile = Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0]);
        assert_eq!(hostile.skip_tagged_fields(), Err(Fault::End));
        let mut honest = Cursor::new(&[1, 7, 2, 0xaa, 0xbb, 9]);
        assert_eq!(honest.skip_tagged_fields(), Ok(()));
        assert_eq!(honest.remaining(), 1);
    }
}
