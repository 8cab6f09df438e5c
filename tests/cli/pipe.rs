//! `kafka-2pc pipe`: what it refuses, what it passes over, and what it says is lost.
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use crate::program::{Outcome, Stage, json_lines};
use kafka_2pc::broker::{Api, Fault, Profile, Reaction};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_wrong_usage() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    // Nobody could ever commit what a run without state leaves prepared.
    for options in ["--stop-after durable", "--stop-after prepare", "--rate 0", "--checkpoint-interval 0s"] {
        let ran = stage.run(&format!("pipe --topic t {options}")).await?;
        assert_eq!(ran.code, Some(2), "{options}: {ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_deleted_between_prepare_and_commit_is_a_loss() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        std::fs::write(&input, "a\nb\nc\n")?;
        let pipe = format!("pipe --topic t --input {} --state {}", input.display(), state.display());
        let ran = stage.run(&format!("{pipe} --stop-after durable")).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let file = ran.out.trim().to_owned();
        assert!(stage.broker.delete_topic("t"));
        stage.broker.create_topic("t", 1)?;
        for _ in 0..2 {
            let ran = stage.run(&format!("txn commit {file} --json")).await?;
            let told = &json_lines(&ran.out)[0];
            assert_eq!((ran.code, told["outcome"].as_str()), (Some(3), Some("lost")), "{ran:?}");
            assert_eq!(told["partitions"][0]["records"], 3, "{ran:?}");
            let ran = stage.run(&pipe).await?;
            assert_eq!(ran.code, Some(3), "{ran:?}");
            assert!(ran.err.contains("t-0 offset 0 (3 records)"), "{ran:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_created_again_after_its_job_was_done_is_refused() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (input, state) = (stage.path("input"), stage.path("state"));
    std::fs::write(&input, "a\nb\n")?;
    let pipe = format!("pipe --topic t --input {} --state {}", input.display(), state.display());
    assert_eq!(stage.run(&pipe).await?.code, Some(0));
    assert!(stage.broker.delete_topic("t"));
    stage.broker.create_topic("t", 1)?;
    std::fs::write(&input, "a\nb\nc\n")?;
    let ran = stage.run(&pipe).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("the topic `t` was deleted and created again"), "{ran:?}");
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, "");
    let ran = stage.run(&format!("{pipe}-2")).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, "a\nb\nc\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_too_long_is_a_bad_line() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (input, state) = (stage.path("input"), stage.path("state"));
    std::fs::write(&input, ["first", &"x".repeat(6_000_000), "last"].join("\n"))?;
    let pipe = format!("pipe --topic t --input {} --state {} --json", input.display(), state.display());
    let ran = stage.run(&pipe).await?;
    assert_eq!((ran.code, json_lines(&ran.out)[0]["records"].as_u64()), (Some(1), Some(1)), "{ran:?}");
    assert!(ran.err.contains("line 2: it is longer than"), "{ran:?}");
    assert!(ran.err.contains("run the same command again"), "{ran:?}");
    let ran = stage.run(&format!("{pipe} --on-bad-line skip")).await?;
    let told = &json_lines(&ran.out)[0];
    assert_eq!((ran.code, told["records"].as_u64(), told["skipped"].as_u64()), (Some(0), Some(1), Some(1)));
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, "first\nlast\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_without_state_is_not_told_to_run_again_after_a_bad_line() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let input = stage.path("input");
    std::fs::write(&input, "{}\nnonsense\n")?;
    let ran = stage.run(&format!("pipe --topic t --format json --input {}", input.display())).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("line 2:") && !ran.err.contains("same command"), "{ran:?}");
    Ok(())
}

/// Two signals end the program also while it tries to start again from its last checkpoint, with no broker there. Nobody
/// reads its messages any more, which must not end it in another way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_count_between_two_attempts() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (input, state) = (stage.path("input"), stage.path("state"));
    std::fs::write(&input, "a\n".repeat(100_000))?;
    let mut program = Command::new(env!("CARGO_BIN_EXE_kafka-2pc"))
        .args(["pipe", "--topic", "t", "--rate", "1000", "--checkpoint-interval", "200ms"])
        .args(["--set", "delivery.timeout.ms=1500", "--set", "request.timeout.ms=1000"])
        .args(["--bootstrap", &stage.broker.bootstrap()])
        .arg("--input")
        .arg(&input)
        .arg("--state")
        .arg(&state)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let told = BufReader::new(program.stderr.take().ok_or("no standard error")?);
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.broker.stop_node(1).await?;
    let again = tokio::task::spawn_blocking(move || {
        told.lines().map_while(Result::ok).any(|line| line.contains("going on from the last checkpoint"))
    });
    assert!(again.await?, "it begins again");
    // It waits for brokers now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..2 {
        Command::new("kill").args(["-INT", &program.id().to_string()]).status()?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let mut ended = None;
    for _ in 0..200 {
        ended = program.try_wait()?;
        if ended.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if ended.is_none() {
        program.kill()?;
        program.wait()?;
    }
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_is_not_the_newest_is_refused_unless_duplicates_are_accepted() -> Outcome {
    for (profile, naming) in [
        (Profile::kafka_4_4(), "pooled"),
        (Profile::kafka_4_4_v1(), "pooled"),
        (Profile::kafka_4_4(), "incrementing"),
    ] {
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (input, state, older) = (stage.path("input"), stage.path("state"), stage.path("older"));
        let pipe = |state: &std::path::Path| {
            let (input, state) = (input.display(), state.display());
            format!("pipe --topic t --input {input} --state {state} --naming {naming} --json")
        };
        std::fs::write(&input, "a\nb\n")?;
        assert_eq!(stage.run(&pipe(&state)).await?.code, Some(0));
        assert!(Command::new("cp").arg("-r").args([&state, &older]).status()?.success());
        std::fs::write(&input, "a\nb\nc\n")?;
        assert_eq!(stage.run(&pipe(&state)).await?.code, Some(0));
        std::fs::write(&input, "a\nb\nc\nd\n")?;
        let ran = stage.run(&pipe(&older)).await?;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(
            ran.err.contains("is not the newest of this job") && ran.err.contains("committed"),
            "{ran:?}"
        );
        assert_eq!(stage.run(&pipe(&state)).await?.code, Some(0), "the newest one still goes on");
        let again = format!("{} --orphans write-again", pipe(&older));
        assert_eq!(stage.run(&again).await?.code, Some(0));
        assert_eq!(stage.run(&pipe(&older)).await?.code, Some(0), "it is the newest now");
        let ran = stage.run("cat --topic t --until-end").await?;
        let mut seen: Vec<&str> = ran.out.lines().collect();
        seen.sort_unstable();
        assert_eq!(seen, ["a", "b", "c", "c", "d", "d"]);
    }
    Ok(())
}

/// `--bootstrap`, `--set`, `--config`, the environment: the first that names a cluster counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_property_names_the_cluster_unless_an_option_does() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (input, config) = (stage.path("input"), stage.path("config"));
    std::fs::write(&input, "a\n")?;
    let (good, bad) = (stage.broker.bootstrap(), "localhost:1");
    let pipe = |file: &str, options: &[&str], environment: &str| {
        std::fs::write(&config, format!("bootstrap.servers={file}\nmax.block.ms=300\n"))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_kafka-2pc"));
        command.args(["pipe", "--topic", "t", "--input"]).arg(&input).arg("--config").arg(&config);
        command.args(options).env("KAFKA_BOOTSTRAP", environment);
        command.output().map(|output| output.status.code())
    };
    let (set_good, set_bad) = (format!("bootstrap.servers={good}"), format!("bootstrap.servers={bad}"));
    for (file, options, environment) in [
        (good.as_str(), &[][..], ""),
        (&good, &[], bad),
        (bad, &["--set", &set_good], bad),
        (bad, &["--set", &set_bad, "--bootstrap", &good], bad),
    ] {
        assert_eq!(pipe(file, options, environment)?, Some(0), "{file} {options:?} {environment}");
    }
    assert_eq!(pipe(bad, &[], &good)?, Some(1));
    assert_eq!(pipe("nonsense", &["--bootstrap", &good], "")?, Some(2));
    Ok(())
}

fn refuse(stage: &Stage, code: i16) {
    stage.broker.inject(Fault::on(Api::Produce, Reaction::ErrorCode(code)));
}

/// INVALID_TOPIC_EXCEPTION is what Kafka says to a Produce into an internal topic: trying again does not help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_may_not_be_written_ends_the_job_at_once() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        std::fs::write(&input, "a\nb\n")?;
        let pipe = format!("pipe --topic t --input {} --state {}", input.display(), state.display());
        refuse(&stage, 17);
        let ran = stage.run(&pipe).await?;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains("t-0: INVALID_TOPIC_EXCEPTION"), "{ran:?}");
        assert!(!ran.err.contains("going on from the last checkpoint"), "{ran:?}");
        assert_eq!(stage.run(&pipe).await?.code, Some(0));
        assert_eq!(stage.run("cat --topic t --until-end").await?.out, "a\nb\n");
    }
    Ok(())
}

/// Two records whose time is too far ahead, among others of three partitions.
const LATE: [&str; 6] = [
    r#"{"value":"1","partition":0}"#,
    r#"{"value":"2","partition":1}"#,
    r#"{"value":"3","partition":1,"timestamp":99999999999999}"#,
    r#"{"value":"4","partition":2}"#,
    r#"{"value":"5","partition":1,"timestamp":99999999999999}"#,
    r#"{"value":"6","partition":1}"#,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_the_broker_refuses_is_named_by_its_line_and_nothing_is_lost() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 3)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        let pipe = format!(
            "pipe --topic t --format json --json --input {} --state {}",
            input.display(),
            state.display()
        );
        std::fs::write(&input, LATE[..2].join("\n") + "\n")?;
        assert_eq!(stage.run(&pipe).await?.code, Some(0));
        std::fs::write(&input, LATE.join("\n"))?;
        let ran = stage.run(&pipe).await?;
        assert_eq!((ran.code, json_lines(&ran.out)[0]["records"].as_u64()), (Some(1), Some(0)), "{ran:?}");
        assert!(
            ran.err.contains("lines 3, 5: the broker refused the record: t-1: INVALID_TIMESTAMP"),
            "{ran:?}"
        );
        assert!(ran.err.contains("lines 3 to 6, is in the topic"), "{ran:?}");
        assert!(!ran.err.contains("going on"), "{ran:?}");
        assert_eq!(stage.run("cat --topic t --until-end").await?.out.lines().count(), 2);
        std::fs::write(&input, LATE.join("\n").replace("99999999999999", "1"))?;
        assert_eq!(stage.run(&pipe).await?.code, Some(0));
        let ran = stage.run("cat --topic t --until-end --partition 1").await?;
        assert_eq!(ran.out, "2\n3\n5\n6\n", "{ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_the_broker_refuses_by_name_are_passed_over_and_counted() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 3)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        std::fs::write(&input, ["nonsense\n", &LATE.join("\n")].concat())?;
        let pipe = format!(
            "pipe --topic t --format json --json --on-bad-line skip --input {} --state {}",
            input.display(),
            state.display()
        );
        let ran = stage.run(&pipe).await?;
        let told = &json_lines(&ran.out)[0];
        let counts = [&told["records"], &told["skipped"]].map(serde_json::Value::as_u64);
        assert_eq!((ran.code, counts), (Some(0), [Some(4), Some(3)]), "{ran:?}");
        assert!(ran.err.contains("lines 4, 6: the broker refused the record"), "{ran:?}");
        let ran = stage.run("cat --topic t --until-end").await?;
        let mut lines: Vec<_> = ran.out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["1", "2", "4", "6"]);
    }
    Ok(())
}

/// Without a name nobody knows which line to leave out, and to leave out all of them would lose good ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_the_broker_refuses_is_named_by_its_lines_and_never_passed_over() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (input, state) = (stage.path("input"), stage.path("state"));
    std::fs::write(&input, "a\nb\nc\n")?;
    let pipe = format!("pipe --topic t --input {} --state {}", input.display(), state.display());
    for (code, name) in [(10, "MESSAGE_TOO_LARGE"), (87, "INVALID_RECORD"), (18, "RECORD_LIST_TOO_LARGE")] {
        for options in ["", "--on-bad-line skip"] {
            refuse(&stage, code);
            let ran = stage.run(&format!("{pipe} {options}")).await?;
            assert_eq!(ran.code, Some(1), "{ran:?}");
            let story = format!("one of the lines 1 to 3: the broker refused the record: t-0: {name}");
            assert!(ran.err.contains(&story), "{ran:?}");
            assert!(!ran.err.contains("going on"), "{ran:?}");
        }
    }
    assert_eq!(stage.run(&pipe).await?.code, Some(0));
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, "a\nb\nc\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_stops_the_job_or_is_counted_and_passed_over() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        std::fs::write(&input, "a\nb\n")?;
        let pipe = format!(
            "pipe --topic t --input {} --state {} --transactional-id-prefix job --json",
            input.display(),
            state.display()
        );
        assert_eq!(stage.run(&format!("{pipe} --stop-after durable")).await?.code, Some(0));
        // Somebody takes the id over, which aborts what is prepared.
        drop(stage.open("t", "job-0-0", &[]).await?);
        std::fs::write(&input, "a\nb\nc\n")?;
        let ran = stage.run(&pipe).await?;
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let ran = stage.run(&format!("{pipe} --on-lost skip")).await?;
        let told = &json_lines(&ran.out)[0];
        assert_eq!((ran.code, told["lost"].as_u64(), told["records"].as_u64()), (Some(3), Some(1), Some(1)));
        assert!(told["finished"].as_bool() == Some(true) && ran.err.contains("2 records"), "{ran:?}");
        let ran = stage.run(&pipe).await?;
        assert_eq!(
            (ran.code, json_lines(&ran.out)[0]["lost"].as_u64()),
            (Some(0), Some(0)),
            "told once: {ran:?}"
        );
        assert_eq!(stage.run("cat --topic t --until-end").await?.out.trim(), "c");
    }
    Ok(())
}

/// A line about a commit tells whose it is, of which checkpoint, and under which id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_commit_names_job_checkpoint_and_transaction() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let input = stage.path("input");
    std::fs::write(&input, "1\n")?;
    let words = "-vv pipe --topic a --partitions 1 --transactional-id-prefix p --input";
    let ran = stage.run(&format!("{words} {}", input.display())).await?;
    let named = |line: &&str| line.contains("commit{job=") && line.contains("checkpoint=1}");
    let line = ran.err.lines().find(named).ok_or(format!("{ran:?}"))?;
    assert!(line.contains("transaction{transactional_id=p-0-0}"), "{line}");
    let words = "-vv mirror --from a --to b --partitions source --until-end --transactional-id-prefix q";
    let ran = stage.run(words).await?;
    let named = |line: &&str| line.contains("commit{job=") && line.contains("checkpoint=");
    let line = ran.err.lines().find(named).ok_or(format!("{ran:?}"))?;
    assert!(line.contains("transaction{transactional_id=q-0-0}"), "{line}");
    Ok(())
}
