//! `--state URL`: what a directory can do, in an object store; here one of files.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use crate::program::{Outcome, Stage, json_lines};
use kafka_2pc::broker::Profile;

const POINTS: [&str; 8] = [
    "write",
    "flush",
    "prepared",
    "store-half",
    "durable",
    "endtxn-sent",
    "endtxn-answered",
    "recovery-commit",
];

/// A topic of one partition, an input of these lines, and the words of a pipe with its state in objects.
async fn piping(stage: &Stage, lines: usize) -> Result<(String, String), Box<dyn std::error::Error>> {
    stage.broker.create_topic("t", 1)?;
    let (input, state) = (stage.path("input"), format!("file://{}", stage.path("state").display()));
    std::fs::write(&input, text(lines))?;
    let pipe = format!(
        "pipe --topic t --input {} --state {state} --lease 1s --checkpoint-interval 50ms --json",
        input.display()
    );
    Ok((pipe, state))
}

fn text(lines: usize) -> String {
    (0..lines).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_point_the_next_run_leaves_every_record_once() -> Outcome {
    for point in POINTS {
        let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
        let (pipe, state) = piping(&stage, 400).await?;
        let slow = format!("{pipe} --rate 2000");
        if point == "recovery-commit" {
            assert_eq!(stage.run_to(&slow, Some("durable")).await?.code, None);
        }
        let ran = stage.run_to(&slow, Some(point)).await?;
        assert_eq!(ran.code, None, "{point}: {ran:?}");
        let ran = stage.run(&pipe).await?;
        assert_eq!(ran.code, Some(0), "{point}: {ran:?}");
        // The first complete checkpoint of all comes before the first record.
        assert!(ran.err.contains("waiting for a sign of life"), "{point}: {ran:?}");
        assert_eq!(stage.run("cat --topic t --until-end").await?.out, text(400), "{point}");
        // It was given up in order: nobody waits, and nothing is written.
        let ran = stage.run(&pipe).await?;
        assert_eq!((ran.code, json_lines(&ran.out)[0]["records"].as_u64()), (Some(0), Some(0)), "{ran:?}");
        assert!(!ran.err.contains("waiting"), "{ran:?}");
        let ran = stage.run(&format!("checkpoints verify --state {state} --json")).await?;
        let counts = &json_lines(&ran.out)[0];
        assert_eq!((ran.code, counts["unnamed_states"].as_u64()), (Some(0), Some(0)), "{ran:?}");
        assert_eq!(counts["committables"], 0, "{point}: {ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_prepared_is_found_and_committed_by_its_url() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let (pipe, state) = piping(&stage, 3).await?;
    let ran = stage.run(&format!("{pipe} --stop-after durable")).await?;
    let told = json_lines(&ran.out);
    let url = told[0]["committable"].as_str().ok_or("no committable")?.to_owned();
    assert!(ran.code == Some(0) && url.starts_with(&format!("{state}/committables/")), "{ran:?}");
    let id = told[0]["transactional_id"].as_str().ok_or("no id")?.to_owned();

    let ran = stage.run(&format!("checkpoints list --state {state} --json")).await?;
    let listed = json_lines(&ran.out);
    assert_eq!((ran.code, listed.len()), (Some(0), 2), "{ran:?}");
    assert_eq!(listed[1]["committables"][0]["status"], "pending", "{ran:?}");
    let file = listed[1]["file"].as_str().unwrap_or_default().trim_start_matches("file://").to_owned();
    assert_eq!(listed[1]["bytes"].as_u64(), Some(std::fs::metadata(&file)?.len()), "{ran:?}");
    assert!(listed[1]["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{ran:?}");
    let ran = stage.run(&format!("checkpoints show --state {state} --json")).await?;
    assert_eq!(json_lines(&ran.out)[0]["input"]["lines"], 3, "{ran:?}");
    let ran = stage.run(&format!("checkpoints verify --state {state} --json")).await?;
    assert_eq!(json_lines(&ran.out)[0]["committables"], 1, "{ran:?}");

    let ran = stage.run(&format!("txn describe {url} --json")).await?;
    assert_eq!(json_lines(&ran.out)[0]["transactional_id"], *id, "{ran:?}");
    let prefix = id.rsplitn(3, '-').last().unwrap_or_default();
    let ran = stage.run(&format!("txn leftovers --prefix {prefix} --state {state} --json")).await?;
    assert_eq!(json_lines(&ran.out)[0]["named_by"], *url, "{ran:?}");
    let ran = stage.run(&format!("txn abort {id} --state {state}")).await?;
    assert!(ran.code == Some(1) && ran.out.contains(&url), "{ran:?}");
    let ran = stage.run(&format!("txn abort {url}")).await?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for (what, outcome) in [
        (url.clone(), "committed"),
        (url.clone(), "already-committed"),
        (format!("--state {state}"), "already-committed"),
    ] {
        let ran = stage.run(&format!("txn commit {what} --json")).await?;
        let told = &json_lines(&ran.out)[0];
        assert_eq!((ran.code, told["outcome"].as_str()), (Some(0), Some(outcome)), "{ran:?}");
        assert_eq!(told["file"], *url, "{ran:?}");
    }
    let ran = stage.run(&format!("txn repair --state {state} --json")).await?;
    assert_eq!(json_lines(&ran.out)[0]["outcome"], "settled", "{ran:?}");
    assert_eq!(stage.run(&pipe).await?.code, Some(0));
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, text(3));
    let ran = stage.run(&format!("txn commit {url}")).await?;
    assert!(ran.code == Some(1) && ran.err.contains("there is no such object"), "{ran:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_checkpoint_lists_is_not_committed_by_its_url_either() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let (pipe, state) = piping(&stage, 3).await?;
    let ran = stage.run(&format!("{pipe} --stop-after prepare")).await?;
    let url = json_lines(&ran.out)[0]["committable"].as_str().ok_or("no committable")?.to_owned();
    for what in [url, format!("--state {state}")] {
        let ran = stage.run(&format!("txn commit {what} --json")).await?;
        assert_eq!(
            (ran.code, json_lines(&ran.out)[0]["outcome"].as_str()),
            (Some(1), Some("denied")),
            "{ran:?}"
        );
    }
    assert_eq!(stage.run(&pipe).await?.code, Some(0));
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, text(3));
    Ok(())
}

/// A pipe that goes on reading, and its messages.
struct Living {
    child: Child,
    told: BufReader<std::process::ChildStderr>,
}

impl Living {
    fn start(stage: &Stage, pipe: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kafka-2pc"))
            .args(pipe.split_whitespace())
            .args(["--bootstrap", &stage.broker.bootstrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let told = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        Ok(Self { child, told })
    }

    fn signal(&self, name: &str) -> Outcome {
        Command::new("kill").args([name, &self.child.id().to_string()]).status()?;
        Ok(())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Waits until the state has this many checkpoints; looking does not disturb its owner.
async fn wait_for_checkpoint(stage: &Stage, state: &str, id: u64) -> Outcome {
    loop {
        let ran = stage.run(&format!("checkpoints list --state {state} --json")).await?;
        let there = ran.err.contains("there is no state here");
        assert!(there || ran.code == Some(0), "{ran:?}");
        if json_lines(&ran.out).iter().any(|line| line["id"].as_u64() >= Some(id)) {
            return Ok(());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_owner_is_refused_and_one_that_fell_asleep_is_fenced() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let (pipe, state) = piping(&stage, 100_000).await?;
    let slow = format!("{} --rate 500", pipe.replace("--lease 1s", "--lease 3s"));
    let mut first = Living::start(&stage, &slow)?;
    wait_for_checkpoint(&stage, &state, 3).await?;
    let ran = stage.run(&pipe).await?;
    assert!(ran.code == Some(1) && ran.err.contains("is in use by another process"), "{ran:?}");
    assert!(
        ran.err.contains(&state) && ran.err.contains(&format!("process {}", first.child.id())),
        "{ran:?}"
    );
    let ran = stage.run(&format!("txn commit --state {state}")).await?;
    assert!(ran.code == Some(1) && ran.err.contains("is in use"), "{ran:?}");

    first.signal("-STOP")?;
    let ran = stage.run(&pipe).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    first.signal("-CONT")?;
    let mut told = String::new();
    while first.told.read_line(&mut told)? > 0 {}
    assert_eq!(first.child.wait()?.code(), Some(1), "{told}");
    assert!(told.contains("this job must stop") || told.contains("fenced"), "{told}");
    assert_eq!(stage.run("cat --topic t --until-end").await?.out, text(100_000));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_keeps_its_state_in_objects_and_its_times_too() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let (pipe, state) = piping(&stage, 500).await?;
    assert_eq!(stage.run(&format!("{pipe} --rate 2000")).await?.code, Some(0));
    let mirrored = format!("file://{}", stage.path("mirrored").display());
    let mirror = format!("mirror --from t --to u --partitions source --until-end --state {mirrored} --json");
    let ran = stage.run(&mirror).await?;
    assert_eq!((ran.code, json_lines(&ran.out)[0]["records"].as_u64()), (Some(0), Some(500)), "{ran:?}");
    let ran = stage.run(&mirror).await?;
    assert_eq!((ran.code, json_lines(&ran.out)[0]["records"].as_u64()), (Some(0), Some(0)), "{ran:?}");
    assert!(!ran.err.contains("waiting"), "{ran:?}");
    assert_eq!(stage.run("cat --topic u --until-end").await?.out, text(500));
    for state in [state, mirrored] {
        let ran = stage.run(&format!("timeline --state {state} --json")).await?;
        let told = json_lines(&ran.out);
        assert!(ran.code == Some(0) && told[0]["checkpoints"].as_u64() > Some(0), "{ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_not_begun_anew_in_the_other_form() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let (pipe, state) = piping(&stage, 3).await?;
    assert_eq!(stage.run(&pipe).await?.code, Some(0));
    let dir = state.trim_start_matches("file://").to_owned();
    for words in
        [pipe.replace("file://", "").replace("--lease 1s", ""), format!("checkpoints list --state {dir}")]
    {
        let ran = stage.run(&words).await?;
        assert!(ran.code == Some(2) && ran.err.contains(&format!("give {state}")), "{ran:?}");
    }
    let files = stage.path("files").display().to_string();
    let of = |place: &str| pipe.replace(&state, place).replace("--lease 1s", "");
    assert_eq!(stage.run(&of(&files)).await?.code, Some(0));
    let ran = stage.run(&of(&format!("file://{files}"))).await?;
    assert!(ran.code == Some(2) && ran.err.contains(&format!("give {files}")), "{ran:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_place_of_a_state_is_wrong_usage() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let (pipe, state) = piping(&stage, 3).await?;
    let of = |place: &str| pipe.replace(&state, place);
    for (words, why) in [
        (of("hdfs://a/b"), "s3://BUCKET/PREFIX"),
        (of("file:relative"), "must be absolute"),
        (of("s3://AKID:hush@bucket/p"), "does not belong into it"),
        (of("directory"), "--lease goes with --state URL"),
        (pipe.replace("--lease 1s", "--lease 10ms"), "at least 1s"),
        (format!("{} --stop-after durable", of("memory:").replace("--lease 1s", "")), "--state that is kept"),
        ("checkpoints list --state memory:".to_owned(), "gone with the process"),
        (format!("txn commit {state}"), "give --state URL"),
    ] {
        let ran = stage.run(&words).await?;
        assert!(ran.code == Some(2) && ran.err.contains(why), "{words}: {ran:?}");
        assert!(!ran.err.contains("hush"), "{ran:?}");
    }
    let ran = stage.run(&of("memory:").replace("--lease 1s", "")).await?;
    assert_eq!((ran.code, json_lines(&ran.out)[0]["records"].as_u64()), (Some(0), Some(3)), "{ran:?}");
    assert!(!ran.err.contains("warning"), "{ran:?}");
    let ran = stage.run("checkpoints list --state file:///nowhere/at/all").await?;
    assert!(ran.code == Some(1) && ran.err.contains("there is no state here"), "{ran:?}");
    Ok(())
}
