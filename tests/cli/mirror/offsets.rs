//! Offsets of the source in the copy's own transactions, and copies that begin at given offsets.

use std::{collections::BTreeMap, error::Error};

use super::{PARTITIONS, Pair, contents, fill};
use crate::program::{Outcome, Stage, json_lines};
use kafka_2pc::{
    broker::{Api, Profile},
    client::{GroupId, Isolation, OffsetAt},
    ids::TopicPartition,
};

/// A cluster with a topic `a` that holds records.
async fn filled(profile: Profile) -> Result<Stage, Box<dyn Error>> {
    let stage = Stage::new(profile, 1).await?;
    stage.broker.create_topic("a", PARTITIONS)?;
    fill(&stage.client, "a", 0).await?;
    Ok(stage)
}

fn copy(to: &str, options: &str) -> String {
    format!(
        "mirror --from a --to {to} --partitions source --until-end --json --set fetch.max.wait.ms=20 {options}"
    )
}

fn places() -> impl Iterator<Item = TopicPartition> {
    (0..PARTITIONS).map(|partition| TopicPartition::new("a", partition))
}

async fn ends(stage: &Stage) -> Result<BTreeMap<TopicPartition, Option<i64>>, Box<dyn Error>> {
    let asked = places().map(|place| (place, OffsetAt::Latest));
    Ok(stage.client.list_offsets(Isolation::Committed, asked).await?.into_iter().collect())
}

async fn committed(
    stage: &Stage,
    group: &str,
) -> Result<BTreeMap<TopicPartition, Option<i64>>, Box<dyn Error>> {
    let told = stage.client.committed(&GroupId::new(group), places()).await?;
    Ok(told.into_iter().map(|(place, at)| (place, at.map(|at| at.offset))).collect())
}

async fn records(stage: &Stage, words: &str) -> Result<u64, Box<dyn Error>> {
    let ran = stage.run(words).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = json_lines(&ran.out).pop().ok_or("nothing was printed")?;
    Ok(told["records"].as_u64().ok_or("no number")?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_commits_where_it_stands_with_its_records() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = filled(profile).await?;
        let state = stage.path("state").display().to_string();
        let words = copy("b", &format!("--parallelism 2 --commit-offsets watched --state {state}"));
        let copied = records(&stage, &words).await?;
        assert_eq!(committed(&stage, "watched").await?, ends(&stage).await?);
        assert_eq!(contents(&stage.client, "b").await?.len() as u64, copied);
        // What did not move is no reason for a transaction.
        let before = stage.broker.requests(Api::EndTxn);
        assert_eq!(records(&stage, &words).await?, 0);
        assert!(stage.broker.requests(Api::EndTxn) <= before + 1, "each run says it once");
        assert_eq!(committed(&stage, "watched").await?, ends(&stage).await?);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flinks_names_choose_the_group_and_switch_it_off() -> Outcome {
    let stage = filled(Profile::kafka_4_4()).await?;
    let copied = records(&stage, &copy("b", "--set properties.group.id=g")).await?;
    assert_eq!(committed(&stage, "g").await?, ends(&stage).await?);
    let off = "--set group.id=h --set commit.offsets.on.checkpoint=false";
    assert_eq!(records(&stage, &copy("c", off)).await?, copied);
    assert!(committed(&stage, "h").await?.values().all(Option::is_none));
    // A copy begins where a group stands, and with nothing committed as it is told.
    let at_group = "--set scan.startup.mode=group-offsets --set commit.offsets.on.checkpoint=false";
    assert_eq!(records(&stage, &copy("d", &format!("{at_group} --set group.id=g"))).await?, 0);
    let ran = stage.run(&copy("d", &format!("{at_group} --set group.id=h"))).await?;
    assert!(ran.code == Some(1) && ran.err.contains("has committed no offset of a-"), "{ran:?}");
    let reset = format!("{at_group} --set group.id=h --set auto.offset.reset=earliest");
    assert_eq!(records(&stage, &copy("d", &reset)).await?, copied);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_of_another_cluster_are_refused() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    fill(&pair.from.client, "a", 0).await?;
    for option in ["--commit-offsets g", "--set group.id=g"] {
        let ran = pair.mirror(&format!("--until-end {option}")).await?;
        let why = "commit.offsets.on.checkpoint=false";
        assert!(ran.code == Some(2) && ran.err.contains(why), "{option}: {ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_begins_at_specific_offsets() -> Outcome {
    let stage = filled(Profile::kafka_4_4()).await?;
    let all = records(&stage, &copy("b", "")).await?;
    let mode = "--set scan.startup.mode=specific-offsets --set scan.startup.specific-offsets";
    let ends = ends(&stage).await?;
    let end = |partition| ends[&TopicPartition::new("a", partition)].unwrap_or_default();
    let none =
        format!("partition:0,offset:{};partition:1,offset:{};partition:2,offset:{}", end(0), end(1), end(2));
    assert_eq!(records(&stage, &copy("c", &format!("{mode}={none}"))).await?, 0);
    // Partitions that are not named begin at the beginning.
    let some = records(&stage, &copy("c", &format!("{mode}=partition:0,offset:{}", end(0)))).await?;
    assert!(0 < some && some < all, "{some} of {all}");
    for (offsets, why) in [
        ("partition:3,offset:0", "a-3, and a has 3 partitions"),
        ("partition:0,offset:999999", "offset 999999 is not there"),
    ] {
        let ran = stage.run(&copy("d", &format!("{mode}={offsets}"))).await?;
        assert!(ran.code == Some(1) && ran.err.contains(why), "{offsets}: {ran:?}");
    }
    Ok(())
}
