//! A question that is asked again and again until it is answered.

use crate::ids::Moment;

/// Where the question stands; one is under way at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Idle,
    Asked,
    Wait(Moment),
}

impl Call {
    /// A wait that is over ends.
    pub(super) fn wake(&mut self, now: Moment) {
        if matches!(*self, Self::Wait(until) if until <= now) {
            *self = Self::Idle;
        }
    }

    /// When the wait is over.
    pub(super) fn deadline(self) -> Option<Moment> {
        match self {
            Self::Wait(until) => Some(until),
            Self::Idle | Self::Asked => None,
        }
    }
}
