//! The settings that a Flink job with a Kafka sink is usually given, as one file, with their own names.

use crate::{
    mirror::{Pair, fill},
    program::{Outcome, Stage},
};
use kafka_2pc::broker::{Api, Fault, Profile, Reaction};

const SHEET: &str = "\
# checkpoints
execution.checkpointing.interval: 30 s
execution.checkpointing.timeout: 10 min
execution.checkpointing.mode: EXACTLY_ONCE
execution.checkpointing.max-concurrent-checkpoints: 1
execution.checkpointing.unaligned.enabled: false   # as it is anyway

# the sink
sink.transactional-id-prefix = sheet
sink.delivery-guarantee=exactly-once
transaction.timeout.ms=900000
batch.size=65536
linger.ms=5
compression.type=CODEC
max.in.flight.requests.per.connection=5
acks=all
enable.idempotence=true
";

/// The sheet as a file of the stage, with this codec.
fn sheet(stage: &Stage, codec: &str) -> Result<String, std::io::Error> {
    let path = stage.path(codec);
    std::fs::write(&path, SHEET.replace("CODEC", codec))?;
    Ok(path.display().to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirror_takes_the_whole_sheet() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let pair = Pair::new(profile).await?;
        let written = fill(&pair.from.client, "a", 0).await?;
        let rar = sheet(&pair.to, "rar")?;
        let ran = pair.mirror(&format!("--until-end --config {rar}")).await?;
        let told = "line 14: compression.type=rar: it is no codec: none, gzip, snappy, lz4 and zstd are";
        assert!(ran.code == Some(2) && ran.err.contains(told), "{ran:?}");
        let snappy = sheet(&pair.to, "snappy")?;
        let ran = pair.mirror(&format!("--until-end --config {snappy}")).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(pair.expect_equal().await?, written);
        assert!(pair.to.run("txn list").await?.out.contains("sheet-0-"), "the prefix counts");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirror_copies_with_unaligned_and_concurrent_checkpoints_and_a_sink_of_other_width() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    let written = fill(&pair.from.client, "a", 0).await?;
    let file = pair.to.path("unaligned");
    std::fs::write(
        &file,
        "execution.checkpointing.interval: 10 ms\nexecution.checkpointing.unaligned.enabled: true\n\
         execution.checkpointing.aligned-checkpoint-timeout: 1 ms\n\
         execution.checkpointing.max-concurrent-checkpoints: 2\n\
         execution.checkpointing.tolerable-failed-checkpoints: 2\n\
         parallelism.default: 3\nsink.parallelism: 2\nstate.checkpoints.num-retained: 3\n",
    )?;
    let state = pair.to.path("state");
    let ran =
        pair.mirror(&format!("--until-end --config {} --state {}", file.display(), state.display())).await?;
    assert_eq!((ran.code, ran.err.contains("error")), (Some(0), false), "{ran:?}");
    assert_eq!(pair.expect_equal().await?, written);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_may_double_records_says_so() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    let written = fill(&pair.from.client, "a", 0).await?;
    let ran = pair.mirror("--until-end --set execution.checkpointing.mode=at-least-once").await?;
    assert!(ran.code == Some(0) && ran.err.contains("may be there twice"), "{ran:?}");
    assert_eq!(pair.expect_equal().await?, written);
    Ok(())
}

/// What was written before a copy began is not in it, if it begins at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_begins_where_scan_startup_mode_says() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    let written = fill(&pair.from.client, "a", 0).await?;
    let ran = pair.mirror("--until-end --json --set scan.startup.mode=latest-offset").await?;
    assert!(ran.code == Some(0) && ran.out.contains("\"records\":0"), "{ran:?}");
    let from_time = "--set scan.startup.mode=timestamp --set scan.startup.timestamp-millis=0";
    let ran = pair.mirror(&format!("--until-end --json {from_time}")).await?;
    assert!(ran.code == Some(0) && ran.out.contains(&format!("\"records\":{written}")), "{ran:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_takes_the_whole_sheet_and_options_come_first() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let input = stage.path("input");
    std::fs::write(&input, "a\nb\n")?;
    let pipe = format!("pipe --topic t --input {}", input.display());
    let (rar, lz4) = (sheet(&stage, "rar")?, sheet(&stage, "lz4")?);
    let ran = stage.run(&format!("{pipe} --config {rar}")).await?;
    assert!(ran.code == Some(2) && ran.err.contains("it is no codec"), "{ran:?}");
    let ran = stage.run(&format!("{pipe} --config {lz4}")).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(stage.run("txn list").await?.out.contains("sheet-0-"));
    let option = "--transactional-id-prefix option --set sink.transactional-id-prefix=set";
    assert_eq!(stage.run(&format!("{pipe} --config {lz4} {option}")).await?.code, Some(0));
    let set = "--set sink.transactional-id-prefix=set --set batch.size=1";
    assert_eq!(stage.run(&format!("{pipe} --config {lz4} {set}")).await?.code, Some(0));
    let listed = stage.run("txn list").await?.out;
    assert!(listed.contains("option-0-") && listed.contains("set-0-"), "{listed}");
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, "a\nb\na\nb\na\nb\n");
    let twice = stage.path("twice");
    std::fs::write(&twice, "linger.ms=1\nlinger.ms=2\n")?;
    let ran = stage.run(&format!("{pipe} --config {}", twice.display())).await?;
    assert!(ran.code == Some(0) && ran.err.contains("line 2: linger.ms counts"), "{ran:?}");
    Ok(())
}

/// A fenced producer is a failure that may pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_goes_back_as_often_as_it_may() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let input = stage.path("input");
    std::fs::write(&input, "a\n")?;
    let pipe = |attempts: &str| {
        // PRODUCER_FENCED, to the first attempt's only request.
        let reaction = Reaction::ErrorCode(90);
        stage.broker.inject(Fault::on(Api::Produce, reaction));
        format!(
            "pipe --topic t --input {} --set restart-strategy.fixed-delay.delay=1 --set {attempts}",
            input.display()
        )
    };
    let ran = stage.run(&pipe("restart-strategy.fixed-delay.attempts=0")).await?;
    assert!(ran.code == Some(1) && !ran.err.contains("going on from"), "{ran:?}");
    let ran = stage.run(&pipe("restart-strategy.type=none")).await?;
    assert!(ran.code == Some(1) && !ran.err.contains("going on from"), "{ran:?}");
    let ran = stage.run(&pipe("restart-strategy.fixed-delay.attempts=1")).await?;
    assert!(ran.code == Some(0) && ran.err.matches("going on from").count() == 1, "{ran:?}");
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, "a\n");
    Ok(())
}
