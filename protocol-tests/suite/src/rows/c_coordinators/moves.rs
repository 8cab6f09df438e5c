//! Coordinators that move and die.

use kafka_2pc::ids::TopicPartition;
use kafka_2pc::wire::api::Api;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// NOT_COORDINATOR.
const NOT_COORDINATOR: i16 = 16;

/// The coordinator moves several times while a transaction is open, and nothing is lost.
pub(super) async fn c02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 3).await?;
    let id = bench.id("c02");
    let mut transaction = bench.init(&client, &id).await?.begin();
    for (partition, value) in (0..).zip(["0", "1", "2"]) {
        bench.write(&mut transaction, &topic, partition, &[value]).await?;
        bench.move_coordinator(&id).await?;
    }
    // Of three nodes it is now another one than in the beginning.
    bench.move_coordinator(&id).await?;
    let producer = bench.step("commit", within(transaction.commit()).await?)?;
    let refused = bench.tap.answers().iter().any(|a| a.codes.contains(&NOT_COORDINATOR));
    holds(refused, "nobody was asked who is not the coordinator any more")?;
    bench.move_coordinator(&id).await?;
    let mut next = producer.begin();
    bench.write(&mut next, &topic, 0, &["next"]).await?;
    bench.step("commit", within(next.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["0", "next", "1", "2"])
}

/// Where EndTxn is when the coordinator dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    OnItsWay,
    Decided,
    Answered,
}

/// The coordinator is killed before it gets EndTxn, after it has decided and before it answers, and between its answer and
/// the markers: each time the transaction is committed once.
pub(super) async fn c11(bench: &Bench) -> Shown {
    bench.trace.keep_private("what a client meets while a coordinator moves depends on the moment");
    let client = bench.client()?;
    for moment in [Moment::OnItsWay, Moment::Decided, Moment::Answered] {
        let topic = bench.topic(&client, 1).await?;
        let id = bench.id("c11");
        let coordinator = bench.coordinator(&id).await?;
        let at = TopicPartition::new(topic.name().clone(), 0);
        // A partition that loses its leader in the same moment is another matter (KAFKA-20734).
        while bench.leader(&at).await?.0 == coordinator {
            bench.move_leader(&at).await?;
        }
        let mut transaction = bench.init(&client, &id).await?.begin();
        bench.write(&mut transaction, &topic, 0, &["first"]).await?;
        let commit = async { Ok::<_, Failure>(bench.step("commit", within(transaction.commit()).await?)?) };
        let producer = match moment {
            Moment::OnItsWay => {
                let held = bench.tap.hold(Api::EndTxn);
                let kill = async {
                    within(held).await??;
                    bench.kill_node(coordinator).await
                };
                let (producer, killed) = tokio::join!(commit, kill);
                killed?;
                producer?
            }
            Moment::Decided => {
                let mut paused = bench.tap.pause_answer(Api::EndTxn);
                let kill = async {
                    paused.reached().await?;
                    bench.kill_node(coordinator).await?;
                    bench.tap.disconnect();
                    Ok::<_, Failure>(())
                };
                let (producer, killed) = tokio::join!(commit, kill);
                killed?;
                producer?
            }
            Moment::Answered => {
                if let Ok(broker) = bench.embedded() {
                    broker.hold_markers();
                }
                let producer = commit.await?;
                bench.kill_node(coordinator).await?;
                if let Ok(broker) = bench.embedded() {
                    broker.release_markers();
                }
                producer
            }
        };
        let mut next = producer.begin();
        bench.write(&mut next, &topic, 0, &["second"]).await?;
        bench.step("commit", within(next.commit()).await?)?;
        bench.restart_node(coordinator).await?;
        equal(&format!("{moment:?}: committed"), bench.committed(&topic).await?, ["first", "second"])?;
    }
    Ok(())
}
