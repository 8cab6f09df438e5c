//! `kafka-2pc cat` and what every command does with its arguments.
use crate::{
    program::{Outcome, Stage, json_lines, program},
    raw::{self, Cluster},
};
use kafka_2pc::{broker::Profile, ids::TopicPartition, record::Compression};

async fn without_a_cluster(words: &str) -> Result<crate::program::Ran, Box<dyn std::error::Error>> {
    program(words.split_whitespace().map(str::to_owned).collect()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cluster_there_is_a_hint() -> Outcome {
    for words in ["cat --topic t", "txn list", "txn describe id"] {
        let ran = without_a_cluster(words).await?;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words}");
        assert!(
            ran.err.contains("`kafka-2pc broker`") && ran.err.contains("`kafka-2pc demo`"),
            "{}",
            ran.err
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_a_usage_error() -> Outcome {
    for words in [
        "frob",
        "cat",
        "cat --topic t --from 1.5 --bootstrap localhost:1",
        "cat --topic t --bootstrap nowhere",
        "cat --topic t --format json --key-separator : --bootstrap localhost:1",
        "txn commit --bootstrap localhost:1",
        "broker --profile kafka-0.8",
        "broker --listen nonsense",
        "broker --listen :9092",
        "broker --listen localhost:99999",
        "broker --listen ::1:9092",
    ] {
        assert_eq!(without_a_cluster(words).await?.code, Some(2), "{words}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_records_are_printed_up_to_what_an_open_transaction_hides() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 2)?;
    stage.open("t", "a", &["one", "two"]).await?.commit().await?;
    stage.open("t", "b", &["no"]).await?.abort().await?;
    let open = stage.open("t", "c", &["open"]).await?;
    stage.open("t", "d", &["hidden", "three"]).await?.commit().await?;

    let mut ran = stage.run("cat --topic t --until-end").await?;
    // The last marker on partition 1 may be a moment late.
    while !ran.out.contains("three") {
        ran = stage.run("cat --topic t --until-end").await?;
    }
    let mut lines: Vec<_> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((ran.code, &lines[..]), (Some(0), &["one", "three", "two"][..]));
    assert!(ran.err.contains("open transactions hide later records of t-0 (offsets "), "{}", ran.err);

    let ran = stage.run("cat --topic t --until-end --isolation uncommitted --partition 0").await?;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "one\nno\nopen\nhidden\n"));
    assert_eq!(ran.err, "");

    open.abort().await?;
    let ran = stage.run("cat --topic t --partition 0 --limit 2 --format json").await?;
    let values: Vec<_> = json_lines(&ran.out).iter().map(|v| v["value"].clone()).collect();
    assert_eq!((ran.code, values), (Some(0), vec!["one".into(), "hidden".into()]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_that_are_not_there_are_errors_with_their_range() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 2)?;
    let ran = stage.run("cat --topic none --until-end").await?;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("topic none does not exist"), "{}", ran.err);
    let ran = stage.run("cat --topic t --until-end --partition 2").await?;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("has 2 partitions"), "{}", ran.err);
    assert_eq!(stage.run("cat --topic t --until-end --from 0").await?.code, Some(2));
    let ran = stage.run("cat --topic t --partition 1 --limit 1 --from 7").await?;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("t-1: offset 7 is not there; offsets 0 to 0 are"), "{}", ran.err);
    assert_eq!(stage.run("cat --topic t --until-end --from end").await?.code, Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offset_outside_of_the_log_is_an_error_also_until_the_end() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    stage.open("t", "a", &["one", "two"]).await?.commit().await?;
    let cat = "cat --topic t --until-end --from";
    for isolation in ["committed", "uncommitted"] {
        let ran = stage.run(&format!("{cat} 9 --isolation {isolation}")).await?;
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.err.contains("t-0: offset 9 is not there; offsets 0 to 3 are"), "{ran:?}");
    }
    // The end itself is a place to begin, and so is the marker before it.
    for from in [2, 3] {
        let ran = stage.run(&format!("{cat} {from}")).await?;
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    }
    for deleted in [1, 3] {
        stage.broker.delete_records(&TopicPartition::new("t", 0), deleted)?;
        let ran = stage.run(&format!("{cat} 0")).await?;
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.err.contains(&format!("offset 0 is not there; offsets {deleted} to 3 are")), "{ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_codec_is_read() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let cluster = Cluster::new(stage.broker.bootstrap());
    let pair = cluster.init("id", None).await.map_err(|code| code.to_string())?;
    for (sequence, codec) in (0..).step_by(2).zip(Compression::ALL) {
        let batch = raw::batch_in(codec, pair, sequence, 2);
        cluster.produce(12, "id", ("t", 0), batch).await.map_err(|code| code.to_string())?;
    }
    let ran = stage.run("cat --topic t --until-end --isolation uncommitted").await?;
    assert_eq!((ran.code, ran.out), (Some(0), "value\n".repeat(10)));
    Ok(())
}
