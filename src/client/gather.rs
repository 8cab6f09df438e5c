//! Questions that several ask about at once, put in one request.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Gathers questions of one kind to one broker.
///
/// One request is under way at a time; what is asked meanwhile goes with the next one. So an answer is never older than
/// its question, and a broker that serves one request of a connection at a time would not have answered sooner.
#[derive(Debug)]
pub(super) struct Gather<Q, A> {
    /// Held by who puts a request.
    turn: tokio::sync::Mutex<()>,
    next: Mutex<Round<Q, A>>,
}

/// The questions of one request, and those who wait for its answer.
#[derive(Debug)]
struct Round<Q, A> {
    questions: Vec<Q>,
    told: watch::Sender<Option<A>>,
}

impl<Q, A> Default for Gather<Q, A> {
    fn default() -> Self {
        Self { turn: tokio::sync::Mutex::default(), next: Mutex::default() }
    }
}

impl<Q, A> Default for Round<Q, A> {
    fn default() -> Self {
        Self { questions: Vec::new(), told: watch::Sender::new(None) }
    }
}

impl<Q: Clone, A: Clone> Gather<Q, A> {
    /// Asks, together with whoever asks at the same moment. All get the whole answer.
    ///
    /// Cancel safe: if the one who put the request is dropped, another one of those who wait for it puts it again.
    pub(super) async fn ask<F: Future<Output = A>>(&self, question: Q, put: impl Fn(Vec<Q>) -> F) -> A {
        loop {
            let told = self.join(question.clone());
            let _turn = self.turn.lock().await;
            let answer = told.borrow().clone();
            if let Some(answer) = answer {
                return answer;
            }
            if told.has_changed().is_err() {
                continue;
            }
            // Whoever is about to ask may come along.
            tokio::task::yield_now().await;
            let round = std::mem::take(&mut *self.next());
            let answer = put(round.questions).await;
            round.told.send_replace(Some(answer.clone()));
            return answer;
        }
    }

    fn join(&self, question: Q) -> watch::Receiver<Option<A>> {
        let mut next = self.next();
        next.questions.push(question);
        next.told.subscribe()
    }

    fn next(&self) -> MutexGuard<'_, Round<Q, A>> {
        // A whole value, whatever happened elsewhere.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future};

    use futures::{FutureExt, future::join_all};
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn what_is_asked_at_once_goes_together_and_what_comes_meanwhile_goes_next() {
        let gather = Gather::<u32, Vec<u32>>::default();
        let (rounds, open) = (RefCell::new(Vec::new()), Notify::new());
        let put = |questions: Vec<u32>| {
            rounds.borrow_mut().push(questions.clone());
            let open = &open;
            async move {
                open.notified().await;
                questions
            }
        };
        let mut first = std::pin::pin!(join_all((0..3).map(|n| gather.ask(n, put))));
        while rounds.borrow().is_empty() {
            assert!(first.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        let mut later = std::pin::pin!(join_all((3..6).map(|n| gather.ask(n, put))));
        assert!(later.as_mut().now_or_never().is_none());
        open.notify_one();
        assert_eq!(first.await, vec![vec![0, 1, 2]; 3]);
        open.notify_one();
        assert_eq!(later.await, vec![vec![3, 4, 5]; 3]);
        assert_eq!(*rounds.borrow(), [vec![0, 1, 2], vec![3, 4, 5]]);
    }

    #[tokio::test]
    async fn a_request_that_was_given_up_is_put_again_by_who_waits_for_it() {
        let gather = Gather::<u32, usize>::default();
        let never = |_| future::pending::<usize>();
        let mut given_up = Box::pin(gather.ask(1, never));
        let mut waits = Box::pin(gather.ask(2, |questions: Vec<u32>| future::ready(questions.len())));
        for _ in 0..3 {
            assert!(given_up.as_mut().now_or_never().is_none());
            assert!(waits.as_mut().now_or_never().is_none());
        }
        drop(given_up);
        assert_eq!(waits.await, 1, "only what still waits is asked");
    }
}
