//! A record that is taken now, or as soon as there is memory for it.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};

use super::{line, state::Shared};
use crate::{
    client::{
        accumulator::{Accumulator, Place},
        error::{SendError, TrySendError},
        topic::Topic,
    },
    record::RecordRef,
};

/// Written by hand, for it runs for each record: what waiting needs is made by those who wait.
pub(super) struct Take<'a, T> {
    shared: &'a Shared,
    topic: &'a Topic,
    partition: Option<i32>,
    record: RecordRef<'a>,
    taken: fn(&mut Accumulator, Place) -> T,
    /// The task had its turn.
    gave_turn: bool,
    in_line: Option<InLine<'a>>,
    /// Listens while the memory is full.
    freed: Option<BoxFuture<'static, ()>>,
}

/// Has a place in the line while it waits.
struct InLine<'a> {
    shared: &'a Shared,
    place: line::Place,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        // They look again, whether it took something or not: what is open must be closed for whoever still waits.
        if self.shared.desk().line.leave(self.place) {
            self.shared.link.stir();
        }
    }
}

impl<'a, T> Take<'a, T> {
    pub(super) fn new(
        shared: &'a Shared,
        topic: &'a Topic,
        partition: Option<i32>,
        record: RecordRef<'a>,
        taken: fn(&mut Accumulator, Place) -> T,
    ) -> Self {
        Self { shared, topic, partition, record, taken, gave_turn: false, in_line: None, freed: None }
    }

    /// Puts the record in, or takes a place in the line: in one go, so that nobody comes in between.
    #[inline]
    fn put(&mut self, lines_up: bool) -> Result<T, TrySendError> {
        let mut desk = self.shared.desk();
        let place = self.in_line.as_ref().map(|in_line| in_line.place);
        let told = self.shared.put(&mut desk, place, |records| {
            let place = records.append(self.topic, self.partition, &self.record)?;
            Ok((self.taken)(records, place))
        });
        if lines_up && place.is_none() && matches!(told, Err(TrySendError::Full)) {
            let wanted = desk.accumulator.wanted();
            self.in_line = Some(InLine { shared: self.shared, place: desk.line.join(wanted) });
        }
        told
    }

    #[cold]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, SendError>> {
        loop {
            // Listening begins before the try, so that what becomes free in between is heard.
            let freed = self.freed.get_or_insert_with(|| Arc::clone(&self.shared.link).freed().boxed());
            let heard = freed.poll_unpin(cx).is_ready();
            if heard {
                self.freed = None;
            }
            let told = match self.put(true) {
                Err(TrySendError::Full) if heard => continue,
                Err(TrySendError::Full) => return Poll::Pending,
                Ok(taken) => Ok(taken),
                Err(TrySendError::Record(error)) => Err(error),
                Err(TrySendError::Failed(cause)) => Err(SendError::Failed(cause)),
            };
            // Nothing is kept back for this one any more, even where the future is held on to.
            self.in_line = None;
            return Poll::Ready(told);
        }
    }
}

impl<T> Future for Take<'_, T> {
    type Output = Result<T, SendError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.in_line.is_some() {
            return self.wait(cx);
        }
        if !mem::replace(&mut self.gave_turn, true) && self.shared.owes_a_turn() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.put(false) {
            Ok(taken) => Poll::Ready(Ok(taken)),
            Err(TrySendError::Full) => self.wait(cx),
            Err(TrySendError::Record(error)) => Poll::Ready(Err(error)),
            Err(TrySendError::Failed(cause)) => Poll::Ready(Err(SendError::Failed(cause))),
        }
    }
}
