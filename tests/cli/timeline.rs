//! `kafka-2pc timeline`: what jobs leave of their checkpoints, and what is made of it.

use crate::program::{Outcome, Stage as Place, json_lines};
use kafka_2pc::{
    broker::Profile,
    checkpoint::timeline::{CheckpointTimes, Stage, read_timeline},
};

/// Every stage of a checkpoint follows on the one before.
#[track_caller]
fn expect_in_order(times: &CheckpointTimes, subtasks: usize) {
    let of = |stage: Stage| times.marks.iter().filter(|mark| mark.stage == stage).count();
    let (ids, sinks) = (times.checkpoint, subtasks);
    assert_eq!((of(Stage::Triggered), of(Stage::Durable)), (1, 1), "{ids}");
    assert_eq!((of(Stage::AtSource), of(Stage::AtSink), of(Stage::Prepared)), (sinks, sinks, sinks), "{ids}");
    assert_eq!((of(Stage::Acknowledged), of(Stage::Notified)), (2 * sinks, 2 * sinks), "{ids}");
    assert_eq!(of(Stage::Committed), of(Stage::Visible), "{ids}");
    let last = |stage| times.last(stage).unwrap_or(i64::MAX);
    let all = [
        Stage::Triggered,
        Stage::AtSource,
        Stage::AtSink,
        Stage::Prepared,
        Stage::Acknowledged,
        Stage::Durable,
        Stage::Notified,
    ];
    assert!(all.map(last).is_sorted(), "{times:?}");
    assert!([Stage::Durable, Stage::Committed, Stage::Visible].map(last).is_sorted(), "{times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_leave_the_times_of_their_checkpoints() -> Outcome {
    let place = Place::new(Profile::kafka_4_4(), 1).await?;
    let (input, piped, mirrored) = (place.path("input"), place.path("piped"), place.path("mirrored"));
    std::fs::write(&input, (0..3_000).map(|n| format!("{n}\n")).collect::<String>())?;
    let words = format!(
        "pipe --topic a --partitions 3 --input {} --state {} --rate 5000 --checkpoint-interval 50ms",
        input.display(),
        piped.display()
    );
    assert_eq!(place.run(&words).await?.code, Some(0));
    let words = format!(
        "mirror --from a --to b --partitions source --until-end --parallelism 2 --state {} \
         --checkpoint-interval 10ms --set fetch.max.wait.ms=20 --set max.partition.fetch.bytes=500",
        mirrored.display()
    );
    let ran = place.run(&words).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for (dir, subtasks) in [(&piped, 1), (&mirrored, 2)] {
        let all = read_timeline(dir)?;
        let complete: Vec<_> = all.iter().filter(|t| t.since_trigger(Stage::Durable).is_some()).collect();
        assert!(complete.len() > 1, "{all:?}");
        assert!(complete.iter().any(|times| times.last(Stage::Visible).is_some()), "{all:?}");
        complete.iter().for_each(|times| expect_in_order(times, subtasks));

        let svg = place.path("picture.svg");
        let words = format!("timeline --state {} --svg {} --json", dir.display(), svg.display());
        let told = json_lines(&place.run(&words).await?.out).pop().ok_or("nothing was printed")?;
        assert_eq!(told["checkpoints"].as_u64(), Some(complete.len() as u64));
        let phases: Vec<_> =
            told["phases"].as_array().ok_or("no phases")?.iter().map(|p| &p["phase"]).collect();
        assert_eq!((phases.first(), phases.last()), (Some(&&"at-source".into()), Some(&&"visible".into())));
        assert!(std::fs::read_to_string(&svg)?.starts_with("<svg "));
        let ran = place.run(&format!("timeline --state {}", dir.display())).await?;
        assert!(ran.out.contains("committed (EndTxn)") && ran.out.contains("█"), "{ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeline_that_cannot_be_written_fails_no_job_and_none_is_an_error() -> Outcome {
    let place = Place::new(Profile::kafka_4_4(), 1).await?;
    let (input, state) = (place.path("input"), place.path("state"));
    std::fs::write(&input, "a\nb\n")?;
    std::fs::create_dir_all(state.join("timeline.ndjson"))?;
    let (input, state) = (input.display(), state.display());
    let ran =
        place.run(&format!("pipe --topic t --partitions 1 --input {input} --state {state} --json")).await?;
    assert_eq!((ran.code, json_lines(&ran.out)[0]["records"].as_u64()), (Some(0), Some(2)), "{ran:?}");
    assert_eq!(ran.err.matches("no timeline is written").count(), 1, "{ran:?}");
    std::fs::remove_dir(place.path("state").join("timeline.ndjson"))?;
    for (dir, why) in
        [(state.to_string(), "no complete checkpoint"), ("/nowhere/at/all".to_owned(), "no state")]
    {
        let ran = place.run(&format!("timeline --state {dir}")).await?;
        assert!(ran.code == Some(1) && ran.err.contains(why), "{ran:?}");
    }
    Ok(())
}
