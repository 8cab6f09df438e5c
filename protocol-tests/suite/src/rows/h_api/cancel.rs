//! Futures that are dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use kafka_2pc::client::{Client, Prepared, Topic, Transaction};
use kafka_2pc::proto::resume::Outcome;
use kafka_2pc::record::RecordRef;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// A future that is given up after so many polls.
struct Given<F> {
    future: Pin<Box<F>>,
    polls: u32,
}

impl<F: Future> Future for Given<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn given<F: Future>(polls: u32, future: F) -> Given<F> {
    Given { future: Box::pin(future), polls }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Init,
    Prefetch,
    Flush,
    Prepare,
    Commit,
    Abort,
    Resume,
}

const CALLS: [Call; 7] =
    [Call::Init, Call::Prefetch, Call::Flush, Call::Prepare, Call::Commit, Call::Abort, Call::Resume];
/// More polls than any call takes here.
const MOST: u32 = 200;

/// Each call is given up after each number of polls: what it wrote is there as a whole or not at all, what was prepared can
/// still be committed, and the next owner of the id works.
pub(super) async fn h03(bench: &Bench) -> Shown {
    let client = bench.client()?;
    for call in CALLS {
        let topic = bench.topic(&client, 2).await?;
        let mut rounds = Vec::new();
        for polls in 0.. {
            holds(polls < MOST, format!("{call:?} never ends"))?;
            let finished = once(bench, &client, &topic, (call, polls)).await?;
            rounds.push(finished);
            if finished {
                break;
            }
        }
        holds(rounds.len() > 1, format!("{call:?} was never given up"))?;
        check(bench, &topic, call, rounds.len()).await?;
    }
    Ok(())
}

/// One round; true if the call came to its end.
async fn once(
    bench: &Bench,
    client: &Client,
    topic: &Topic,
    (call, polls): (Call, u32),
) -> Result<bool, Failure> {
    let id = bench.id("h03");
    let builder = || client.transactional_producer(id.clone());
    let value = format!("{polls}");
    let finished = match call {
        Call::Init => given(polls, builder().init()).await.is_some(),
        Call::Prefetch => {
            let mut producer = builder().lazy();
            let finished = given(polls, producer.prefetch()).await.is_some();
            within(producer.prefetch()).await??;
            finished
        }
        Call::Flush => {
            let mut transaction = open(client, topic, (&id, &value)).await?;
            let finished = given(polls, transaction.flush()).await.is_some();
            within(transaction.flush()).await??;
            within(transaction.commit()).await??;
            finished
        }
        Call::Prepare => given(polls, open(client, topic, (&id, &value)).await?.prepare()).await.is_some(),
        Call::Commit => given(polls, open(client, topic, (&id, &value)).await?.commit()).await.is_some(),
        Call::Abort => given(polls, open(client, topic, (&id, &value)).await?.abort()).await.is_some(),
        Call::Resume => {
            let Prepared::Ready(committable) =
                within(open(client, topic, (&id, &value)).await?.prepare()).await??
            else {
                return Err(Failure::wrong("nothing was prepared"));
            };
            let finished = given(polls, client.resume(committable.clone()).commit()).await.is_some();
            let again = within(client.resume(committable).commit()).await??;
            equal("the commit after one that was given up", again.outcome, Outcome::Committed)?;
            finished
        }
    };
    // The next owner.
    let mut next = within(builder().init()).await??.begin();
    within(next.send(topic, Some(0), RecordRef::value(format!("after {value}").as_bytes()))).await??;
    within(next.commit()).await??;
    Ok(finished)
}

async fn open(
    client: &Client,
    topic: &Topic,
    (id, value): (&kafka_2pc::ids::TransactionalId, &str),
) -> Result<Transaction, Failure> {
    let mut transaction = within(client.transactional_producer(id.clone()).init()).await??.begin();
    for partition in 0..2 {
        within(transaction.send(topic, Some(partition), RecordRef::value(value.as_bytes()))).await??;
    }
    Ok(transaction)
}

async fn check(bench: &Bench, topic: &Topic, call: Call, rounds: usize) -> Shown {
    let committed = bench.committed(topic).await?;
    for round in 0..rounds {
        let count = |value: &str| committed.iter().filter(|found| *found == value).count();
        let told = format!("{call:?} given up after {round} polls");
        equal(&format!("{told}: records of the next owner"), count(&format!("after {round}")), 1)?;
        let own = count(&round.to_string());
        let last = round + 1 == rounds;
        match call {
            Call::Init | Call::Prefetch | Call::Abort | Call::Prepare => equal(&told, own, 0)?,
            Call::Flush | Call::Resume => equal(&told, own, 2)?,
            Call::Commit if last => equal(&told, own, 2)?,
            Call::Commit => holds(own == 0 || own == 2, format!("{told}: {own} of 2 records"))?,
        }
    }
    Ok(())
}
