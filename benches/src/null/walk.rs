//! Bytes of a frame, one field after the other.

/// What is not read yet. Every step is `None` where the frame ends too early.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<'a>(pub(super) &'a [u8]);

impl<'a> Walk<'a> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// An unsigned number of variable length.
    pub(super) fn uvarint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The length of an array, bytes or string that may be null (`None` inside).
    pub(super) fn length(&mut self, form: Form, width: Width) -> Option<Option<usize>> {
        match (form, width) {
            (Form::Compact, _) => Some(self.uvarint()?.checked_sub(1)),
            (Form::Classic, Width::Two) => Some(usize::try_from(self.i16()?).ok()),
            (Form::Classic, Width::Four) => Some(usize::try_from(self.i32()?).ok()),
        }
    }

    pub(super) fn string(&mut self, form: Form) -> Option<Option<&'a str>> {
        match self.length(form, Width::Two)? {
            None => Some(None),
            Some(length) => Some(Some(std::str::from_utf8(self.take(length)?).ok()?)),
        }
    }

    /// Passes over tagged fields, which only compact forms have.
    pub(super) fn tags(&mut self, form: Form) -> Option<()> {
        if form == Form::Classic {
            return Some(());
        }
        for _ in 0..self.uvarint()? {
            self.uvarint()?;
            let length = self.uvarint()?;
            self.take(length)?;
        }
        Some(())
    }
}

/// How lengths are written (KIP-482).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Classic,
    Compact,
}

/// Bytes of a classic length: strings have two, everything else four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Two,
    Four,
}

/// Writes an unsigned number of variable length.
pub(super) fn put_uvarint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length_are_read_as_written() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_151, 268_435_455] {
            let mut bytes = Vec::new();
            put_uvarint(&mut bytes, value);
            assert_eq!(Walk(&bytes).uvarint(), Some(value));
        }
        assert_eq!(Walk(&[0x80]).uvarint(), None);
    }
}
