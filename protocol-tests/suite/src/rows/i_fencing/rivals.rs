//! A second instance comes up, and the first one goes on.

use std::time::Duration;

use kafka_2pc::client::{Client, EndError, Topic, Transaction};
use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::resume::{CoordinatorState, Outcome};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::until_state;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::writer::Child;

/// Where the first instance is when the second one takes its id over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Send,
    Add,
    Prepare,
    Commit,
    Abort,
}

const POINTS: [Point; 5] = [Point::Send, Point::Add, Point::Prepare, Point::Commit, Point::Abort];

/// Wherever the first instance is when the second one takes over, it is told, and nothing of it becomes visible.
pub(super) async fn i01(bench: &Bench) -> Shown {
    let topic = bench.topic(&bench.client()?, 2).await?;
    let mut expected = Vec::new();
    for point in POINTS {
        let id = bench.id("i01");
        let first = bench.client()?;
        let mut open = bench.init(&first, &id).await?.begin();
        bench.write(&mut open, &topic, 0, &[&format!("first {point:?}")]).await?;
        let second = bench.client()?;
        let mut own = bench.init(&second, &id).await?.begin();
        go_on(bench, (&first, &topic), open, point).await?;
        let value = format!("second {point:?}");
        bench.write(&mut own, &topic, 0, &[&value]).await?;
        within(own.commit()).await??;
        expected.push(value);
    }
    equal("committed", bench.committed(&topic).await?, expected)
}

async fn go_on(
    bench: &Bench,
    (client, topic): (&Client, &Topic),
    mut open: Transaction,
    point: Point,
) -> Shown {
    let told = |other: String| Failure::wrong(format!("{point:?}: {other}"));
    match point {
        Point::Send | Point::Add => {
            let partition = if point == Point::Send { 0 } else { 1 };
            holds(
                bench.write(&mut open, topic, partition, &["zombie"]).await.is_err(),
                format!("{point:?}: stored"),
            )?;
            fenced(point, open).await
        }
        Point::Abort => fenced(point, open).await,
        Point::Commit => match within(open.commit()).await? {
            Err(EndError::Outcome(outcome)) if matches!(*outcome, Outcome::Lost { .. }) => Ok(()),
            other => Err(told(format!("{other:?}"))),
        },
        Point::Prepare => {
            // What was acknowledged before the fence can be handed out, or not; its commit tells that it is lost.
            let Ok(prepared) = within(open.prepare()).await? else { return Ok(()) };
            let committable =
                prepared.committable().ok_or_else(|| told("nothing was prepared".to_owned()))?;
            match within(client.resume(committable).commit()).await??.outcome {
                Outcome::Lost { .. } => Ok(()),
                other => Err(told(format!("{other:?}"))),
            }
        }
    }
}

async fn fenced(point: Point, open: Transaction) -> Shown {
    match within(open.abort()).await? {
        Err(EndError::Fenced(cause)) => holds(cause.is_fenced(), format!("{cause:?}")),
        other => Err(Failure::wrong(format!("{point:?}: {other:?}"))),
    }
}

/// Whoever was fenced can go on with another id, on the connections that it has.
pub(super) async fn i04(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("i04");
    let mut open = bench.init(&client, &id).await?.begin();
    bench.write(&mut open, &topic, 0, &["fenced"]).await?;
    let rival = bench.untapped()?;
    within(rival.transactional_producer(id).init()).await??;
    fenced(Point::Abort, open).await?;
    let connections = |bench: &Bench| {
        let requests = bench.tap.requests();
        requests.iter().map(|request| request.connection).max()
    };
    let before = connections(bench);
    let mut other = bench.init(&client, &bench.id("i04")).await?.begin();
    bench.write(&mut other, &topic, 0, &["other"]).await?;
    within(other.commit()).await??;
    equal("the newest connection", connections(bench), before)?;
    equal("committed", bench.committed(&topic).await?, ["other"])
}

/// A writer that was frozen for twice its transaction timeout wakes up: nothing that it sends becomes visible, whether it
/// wakes in the middle of a request or between two.
pub(super) async fn i05(bench: &Bench) -> Shown {
    let timeout = Duration::from_secs(1);
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("i05");
    let mut zombie = Child::start(&bench.bootstrap(), topic.name(), &id, timeout)?;
    zombie.until("open").await?;
    let frozen = tokio::time::Instant::now();
    zombie.freeze()?;
    until_state(&client, &id, CoordinatorState::CompleteAbort).await?;
    successor(bench, &client, (&id, &topic), "while it is frozen").await?;
    tokio::time::sleep_until(frozen + 2 * timeout).await;
    // It finds its order to go on when it wakes up.
    zombie.tell()?;
    zombie.wake()?;
    let said = zombie.until("end").await?;
    holds(said.starts_with("end refused"), format!("the zombie said: {said}"))?;
    successor(bench, &client, (&id, &topic), "after it woke up").await?;

    // The same with a request on its way all that time.
    let late = bench.id("i05");
    let builder = client.transactional_producer(late.clone()).transaction_timeout(timeout);
    let mut open = bench.init_of(builder).await?.begin();
    bench.write(&mut open, &topic, 0, &["zombie"]).await?;
    let mut paused = bench.tap.pause(Api::Produce);
    within(open.send(&topic, Some(0), RecordRef::value(b"zombie, too"))).await??;
    let sleeping = async {
        paused.reached().await?;
        until_state(&bench.untapped()?, &late, CoordinatorState::CompleteAbort).await?;
        paused.release();
        Ok::<_, Failure>(())
    };
    let (committed, slept) = tokio::join!(within(open.commit()), sleeping);
    slept?;
    holds(committed?.is_err(), "the zombie's commit succeeded")?;
    equal("committed", bench.committed(&topic).await?, ["while it is frozen", "after it woke up"])
}

async fn successor(
    bench: &Bench,
    client: &Client,
    (id, topic): (&TransactionalId, &Topic),
    value: &str,
) -> Shown {
    let mut own = bench.init(client, id).await?.begin();
    bench.write(&mut own, topic, 0, &[value]).await?;
    within(own.commit()).await??;
    Ok(())
}
