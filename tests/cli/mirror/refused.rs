//! What is refused before anything is written.

use super::{Pair, contents, fill};
use crate::program::{Outcome, Stage};
use kafka_2pc::broker::Profile;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_that_do_not_fit_are_refused() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    fill(&pair.from.client, "a", 0).await?;
    let from = pair.from.broker.bootstrap();
    let mirror = |options: &str| format!("mirror --until-end --from-bootstrap {from} {options}");
    pair.to.broker.create_topic("narrow", 2)?;
    for (options, code, why) in [
        ("--from a --to b", 1, "or --partitions source with as many as a has (3)"),
        ("--from a --to b --partitions 2", 2, "--partitions 2: a has 3"),
        ("--from a --to b --partitions none", 2, "`source`"),
        ("--from a --to narrow", 1, "narrow has 2 partitions, fewer than 3 of a"),
        ("--from missing --to b --partitions 3", 1, "missing"),
        ("--from a --to b --partitions 3 --set bootstrap.servers=x:1", 2, "--from-bootstrap"),
        (
            "--from a --to b --partitions 3 --set auto.offset.reset=latest",
            2,
            "scan.startup.mode=latest-offset",
        ),
        ("--from a --to b --partitions 3 --parallelism 0", 2, "parallelism"),
    ] {
        let ran = pair.to.run(&mirror(options)).await?;
        assert!(ran.code == Some(code) && ran.err.contains(why), "{options}: {ran:?}");
    }
    assert!(pair.to.client.topic("b").await.is_err(), "nothing was created");
    assert!(contents(&pair.to.client, "narrow").await?.is_empty());
    let itself = pair.from.run("mirror --from a --to a").await?;
    assert!(itself.code == Some(2) && itself.err.contains("the same topic"), "{itself:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_of_other_clusters_topics_or_jobs_is_refused() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    let other = Stage::new(Profile::kafka_4_4(), 1).await?;
    fill(&pair.from.client, "a", 0).await?;
    pair.from.broker.create_topic("a2", 3)?;
    other.broker.create_topic("a", 3)?;
    let written = pair.finish().await?["records"].as_u64().ok_or("no number")?;
    let state = pair.to.path("state").display().to_string();
    let (from, elsewhere) = (pair.from.broker.bootstrap(), other.broker.bootstrap());
    let words = |topics: &str, from: &str| {
        format!("mirror {topics} --partitions source --until-end --state {state} --from-bootstrap {from}")
    };
    for (words, why) in [
        (words("--from a --to b", &elsewhere), "belongs to the source cluster"),
        (words("--from a2 --to b", &from), "belongs to the source topic `a`"),
        (words("--from a --to b2", &from), "belongs to the topic `b`"),
    ] {
        let ran = pair.to.run(&words).await?;
        assert!(ran.code == Some(1) && ran.err.contains(why), "{words}: {ran:?}");
    }
    let ran = other.run(&words("--from a --to b", &from)).await?;
    assert!(ran.code == Some(1) && ran.err.contains("belongs to the cluster"), "{ran:?}");

    let piped = pair.to.path("piped").display().to_string();
    let input = pair.to.path("input");
    std::fs::write(&input, "x\n")?;
    pair.to.broker.create_topic("p", 3)?;
    let pipe =
        |state: &str, to: &str| format!("pipe --topic {to} --input {} --state {state}", input.display());
    assert_eq!(pair.to.run(&pipe(&piped, "p")).await?.code, Some(0));
    let ran = pair.to.run(&words("--from a --to p", &from).replace(&state, &piped)).await?;
    assert!(ran.code == Some(1) && ran.err.contains("a job of another kind"), "{ran:?}");
    let ran = pair.to.run(&pipe(&state, "b")).await?;
    assert!(ran.code == Some(1) && ran.err.contains("a job of another kind"), "{ran:?}");
    assert_eq!(pair.expect_equal().await?, written);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_that_were_created_anew_are_refused() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    fill(&pair.from.client, "a", 0).await?;
    pair.finish().await?;
    let again = pair.stateful("--until-end");
    assert!(pair.to.broker.delete_topic("b"));
    pair.to.broker.create_topic("b", 3)?;
    let ran = pair.to.run(&again).await?;
    assert!(ran.code == Some(1) && ran.err.contains("deleted and created again"), "{ran:?}");
    assert!(contents(&pair.to.client, "b").await?.is_empty());

    let pair = Pair::new(Profile::kafka_4_4()).await?;
    fill(&pair.from.client, "a", 0).await?;
    pair.finish().await?;
    assert!(pair.from.broker.delete_topic("a"));
    pair.from.broker.create_topic("a", 3)?;
    let ran = pair.to.run(&pair.stateful("--until-end")).await?;
    assert!(ran.code == Some(1) && ran.err.contains("topic a"), "{ran:?}");
    Ok(())
}

/// Records that a complete checkpoint counts as copied were on their way when their topic was deleted: that is a loss,
/// and the new topic gets nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_deleted_between_prepare_and_commit_is_a_loss() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let pair = Pair::new(profile).await?;
        fill(&pair.from.client, "a", 0).await?;
        let crashed = pair.to.run_to(&pair.stateful("--until-end"), Some("durable")).await?;
        assert_eq!(crashed.code, None, "{crashed:?}");
        assert!(pair.to.broker.delete_topic("b"));
        pair.to.broker.create_topic("b", 3)?;
        for _ in 0..2 {
            let ran = pair.to.run(&pair.stateful("--until-end")).await?;
            assert!(ran.code == Some(3) && ran.err.contains("LOST"), "{ran:?}");
            assert!(ran.err.contains(" offset ") && ran.err.contains(" records)"), "{ran:?}");
        }
        assert!(contents(&pair.to.client, "b").await?.is_empty());
    }
    Ok(())
}
