//! The program whole, on every broker that the embedded one imitates: killed, resumed, its transactions looked at.

use crate::program::{Outcome, Stage, json_lines, program};
use kafka_2pc::broker::{Profile, Quirk};

const LINES: usize = 600;

/// The recovery points need what the one before leaves.
const POINTS: [&str; 8] = [
    "write:50",
    "prepared",
    "leftover-abort",
    "durable",
    "recovery-commit",
    "endtxn-sent",
    "endtxn-answered:2",
    "durable:3",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_that_is_killed_anywhere_writes_every_line_once_on_every_profile() -> Outcome {
    for profile in Profile::all() {
        let name = profile.name;
        let stage = Stage::new(profile, 1).await?;
        stage.broker.create_topic("t", 1)?;
        let (input, state) = (stage.path("input"), stage.path("state"));
        let lines: String = (0..LINES).map(|n| format!("line {n}\n")).collect();
        std::fs::write(&input, &lines)?;
        let pipe = format!(
            "pipe --topic t --input {} --state {} --checkpoint-interval 20ms --rate 1500 --json",
            input.display(),
            state.display()
        );
        for point in POINTS {
            let ran = stage.run_to(&pipe, Some(point)).await?;
            assert_eq!(ran.code, None, "{name}, {point}: {ran:?}");
        }
        let ran = stage.run(&pipe).await?;
        let told = json_lines(&ran.out).pop().ok_or("nothing was printed")?;
        assert_eq!((ran.code, told["finished"].as_bool()), (Some(0), Some(true)), "{name}: {ran:?}");
        assert_eq!(stage.run("cat --topic t --until-end").await?.out, lines, "{name}");
        let open = stage.run("txn list --open --json").await?;
        assert_eq!((open.code, &*open.out), (Some(0), ""), "{name}: {open:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committable_is_committed_described_and_lost_on_every_profile() -> Outcome {
    for profile in Profile::all() {
        let name = profile.name;
        let stage = Stage::new(profile, 3).await?;
        stage.broker.create_topic("t", 2)?;
        let (_, file) = stage.prepared("t", "kept", &["a", "b"]).await?;
        for _ in 0..2 {
            let ran = stage.run(&format!("txn commit {file} --json")).await?;
            assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        }
        let ran = stage.run(&format!("txn describe {file} --json")).await?;
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        let (_, file) = stage.prepared("t", "lost", &["c"]).await?;
        drop(stage.open("t", "lost", &["d"]).await?);
        let ran = stage.run(&format!("txn commit {file} --json")).await?;
        assert_eq!(
            (ran.code, json_lines(&ran.out)[0]["outcome"].as_str()),
            (Some(3), Some("lost")),
            "{name}: {ran:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn profiles_and_quirks_are_listed_where_another_is_asked_for() -> Outcome {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let ran = program(words("broker --profile none")).await?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for profile in Profile::all() {
        assert!(ran.err.contains(profile.name), "{ran:?}");
    }
    let ran = program(words("broker --quirk none")).await?;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for quirk in Quirk::ALL {
        assert!(ran.err.contains(quirk.name()), "{ran:?}");
    }
    Ok(())
}
