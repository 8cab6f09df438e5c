//! Reading bytes that nobody vouches for: every step is checked against what is left.

/// Bytes that are still unread. A failed step leaves the position where the step began or later; callers give up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

/// Why a step was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    /// More bytes were announced or needed than there are.
    End,
    /// A varint longer than five bytes, or of more than 32 bits.
    Varint,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Short> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or(Short::End)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(Short::End)?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Short> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Short> {
        self.array().map(i32::from_be_bytes)
    }

    /// An unsigned varint of at most 32 bits. Java's reader and the codec disagree on longer ones, so they are refused.
    pub(crate) fn uvarint(&mut self) -> Result<u32, Short> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Short::Varint)
    }

    /// Skips a section of tagged fields without looking into them (KIP-482).
    pub(crate) fn skip_tagged_fields(&mut self) -> Result<(), Short> {
        for _ in 0..self.uvarint()? {
            self.uvarint()?;
            let size = self.uvarint()?;
            self.take(usize::try_from(size).map_err(|_| Short::End)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_more_than_32_bits_are_refused() {
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).uvarint(), Ok(u32::MAX));
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).uvarint(), Err(Short::Varint));
        assert_eq!(Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).uvarint(), Err(Short::Varint));
        assert_eq!(Cursor::new(&[0x80]).uvarint(), Err(Short::End));
    }

    #[test]
    fn a_count_of_tagged_fields_is_only_as_good_as_the_bytes_behind_it() {
        let mut hostile = Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0]);
        assert_eq!(hostile.skip_tagged_fields(), Err(Short::End));
        let mut honest = Cursor::new(&[1, 7, 2, 0xaa, 0xbb, 9]);
        assert_eq!(honest.skip_tagged_fields(), Ok(()));
        assert_eq!(honest.remaining(), 1);
    }
}
