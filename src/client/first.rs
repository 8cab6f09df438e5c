//! One question to several servers, until one answers.

use futures::{StreamExt, stream::FuturesUnordered};

use crate::{
    net::{CallError, Clock},
    proto::health::{OVERDUE, Seen},
};

/// Asks the first server, and the next one as well when the answer is overdue or a failure; the first answer counts. Tells
/// `seen` what that says of the servers.
///
/// # Errors
/// Nobody answered, each with its reason; or the one that says that the question can't be put.
pub(super) async fn first<S: Clone, T, F>(
    clock: Clock,
    servers: Vec<S>,
    ask: impl Fn(S) -> F,
    seen: impl Fn(S, Seen),
) -> Result<T, Vec<CallError>>
where
    F: Future<Output = Result<T, CallError>>,
{
    let mut left = servers.into_iter();
    let mut asked = FuturesUnordered::new();
    let mut errors = Vec::new();
    loop {
        let newest = left.next();
        if let Some(server) = newest.clone() {
            let answer = ask(server.clone());
            asked.push(async move { (server, answer.await) });
        }
        // With nobody left to ask there is only waiting.
        let overdue = (left.len() > 0).then(|| clock.now().after(OVERDUE));
        tokio::select! {
            answer = asked.next() => match answer {
                None => return Err(errors),
                Some((server, Ok(answer))) => {
                    seen(server, Seen::Answered);
                    return Ok(answer);
                }
                Some((server, Err(error @ CallError::Exchange(_)))) => {
                    seen(server, Seen::Answered);
                    return Err(vec![error]);
                }
                Some((server, Err(error))) => {
                    seen(server, Seen::Silent);
                    errors.push(error);
                }
            },
            () = clock.sleep_until(overdue) => newest.into_iter().for_each(|server| seen(server, Seen::Silent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future};

    use super::*;

    /// What a server does.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Does {
        Answer(u8),
        Refuse,
        Nothing,
    }

    async fn ask(servers: &[Does]) -> (Result<u8, usize>, Vec<(Does, Seen)>) {
        let told = RefCell::new(Vec::new());
        let answer = |server| async move {
            match server {
                Does::Answer(answer) => Ok(answer),
                Does::Refuse => Err(CallError::NotSent("refused".into())),
                Does::Nothing => future::pending().await,
            }
        };
        let seen = |server, seen| told.borrow_mut().push((server, seen));
        let result = first(Clock::start(), servers.to_vec(), answer, seen).await;
        (result.map_err(|errors| errors.len()), told.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_holds_nobody_up() {
        use Does::{Answer, Nothing, Refuse};
        use Seen::{Answered, Silent};
        let (result, told) = ask(&[Nothing, Refuse, Nothing, Answer(7), Answer(8)]).await;
        assert_eq!(result, Ok(7));
        assert_eq!(
            told,
            [(Nothing, Silent), (Refuse, Silent), (Nothing, Silent), (Answer(7), Answered)],
            "the last one is not asked"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_have_failed_there_is_an_error() {
        assert_eq!(ask(&[Does::Refuse, Does::Refuse]).await.0, Err(2));
        assert_eq!(ask(&[]).await, (Err(0), vec![]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_only_server_is_waited_for() {
        let late = |()| async {
            tokio::time::sleep(OVERDUE * 20).await;
            Ok(1)
        };
        let told = RefCell::new(Vec::new());
        let result = first(Clock::start(), vec![()], late, |(), seen| told.borrow_mut().push(seen)).await;
        assert_eq!((result.ok(), told.into_inner()), (Some(1), vec![Seen::Answered]));
    }
}
