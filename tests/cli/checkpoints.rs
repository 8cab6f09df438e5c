//! `checkpoints`: what a job keeps, shown and verified.

use kafka_2pc::broker::Profile;

use crate::program::{Outcome, Stage, json_lines};

/// A job that stopped with a transaction prepared and listed.
async fn stopped(stage: &Stage) -> Result<String, Box<dyn std::error::Error>> {
    stage.broker.create_topic("t", 1)?;
    let (input, state) = (stage.path("input"), stage.path("state"));
    std::fs::write(&input, "a\nb\nc\n")?;
    let (input, state) = (input.display(), state.display().to_string());
    let pipe = format!("pipe --topic t --input {input} --state {state} --stop-after durable");
    let ran = stage.run(&pipe).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_are_listed_and_shown() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let state = stopped(&stage).await?;
    let ran = stage.run(&format!("checkpoints list --state {state} --json")).await?;
    let listed = json_lines(&ran.out);
    assert_eq!((ran.code, listed.len()), (Some(0), 2), "{ran:?}");
    assert_eq!((listed[0]["id"].as_u64(), listed[1]["id"].as_u64()), (Some(0), Some(1)));
    assert_eq!(listed[1]["owner_epoch"], 1, "{ran:?}");
    assert_eq!(listed[1]["committables"][0]["status"], "pending", "{ran:?}");
    assert_eq!(listed[1]["committables"][0]["records"], 3, "{ran:?}");
    assert_eq!(listed[1]["operators"][0]["uid"], "input", "{ran:?}");
    assert!(listed[1]["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{ran:?}");
    let file = std::fs::metadata(listed[1]["file"].as_str().unwrap_or_default())?;
    assert_eq!(listed[1]["bytes"].as_u64(), Some(file.len()));
    let ran = stage.run(&format!("checkpoints list --state {state}")).await?;
    assert!(ran.code == Some(0) && ran.out.contains("1 pending") && ran.out.contains("input "), "{ran:?}");

    let newest = stage.run(&format!("checkpoints show --state {state} --json")).await?;
    let shown = &json_lines(&newest.out)[0];
    assert_eq!((newest.code, shown["id"].as_u64(), shown["topic"].as_str()), (Some(0), Some(1), Some("t")));
    assert_eq!((shown["input"]["bytes"].as_u64(), shown["input"]["lines"].as_u64()), (Some(6), Some(3)));
    let committable = &shown["committables"][0]["committable"];
    assert_eq!(committable["partitions"][0]["records"], 3, "{newest:?}");
    assert_eq!(shown["topic_id"], committable["partitions"][0]["topic_id"], "{newest:?}");
    assert_eq!(shown["writers"][0]["subtask"], 0, "{newest:?}");
    let first = stage.run(&format!("checkpoints show --id 0 --state {state}")).await?;
    assert!(first.code == Some(0) && first.out.contains("\"lines\": 0"), "{first:?}");
    let none = stage.run(&format!("checkpoints show --id 7 --state {state}")).await?;
    assert!(none.code == Some(1) && none.err.contains("no checkpoint 7"), "{none:?}");
    let nowhere = stage.run("checkpoints list --state nowhere").await?;
    assert!(nowhere.code == Some(1) && nowhere.err.contains("there is no state here"), "{nowhere:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_names_each_fault_and_ends_with_one() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let state = stopped(&stage).await?;
    let verify = format!("checkpoints verify --state {state}");
    let ran = stage.run(&format!("{verify} --json")).await?;
    let counts = &json_lines(&ran.out)[0];
    assert_eq!((ran.code, counts["checkpoints"].as_u64()), (Some(0), Some(2)), "{ran:?}");
    assert_eq!((counts["committables"].as_u64(), counts["faults"].as_u64()), (Some(1), Some(0)), "{ran:?}");
    let newest = format!("{state}/checkpoint-00000000000000000001");
    let whole = std::fs::read(&newest)?;
    std::fs::write(&newest, &whole[..whole.len() - 1])?;
    let ran = stage.run(&verify).await?;
    assert!(
        ran.code == Some(1) && ran.out.contains(&format!("{newest}: this checkpoint is torn")),
        "{ran:?}"
    );
    assert!(ran.out.contains("1 fault"), "{ran:?}");
    let ran = stage.run(&format!("checkpoints list --state {state} --json")).await?;
    let told = json_lines(&ran.out)[1]["fault"].to_string();
    assert!(ran.code == Some(1) && told.contains("torn"), "{ran:?}");
    let ran = stage.run(&format!("checkpoints show --state {state}")).await?;
    assert!(ran.code == Some(1) && ran.err.contains("restore the file from a backup"), "{ran:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_job_can_be_looked_at() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    stage.broker.create_topic("t", 1)?;
    let (input, state) = (stage.path("input"), stage.path("state"));
    let lines: String = (0..4000).map(|n| format!("{n}\n")).collect();
    std::fs::write(&input, lines)?;
    let pipe = format!(
        "pipe --topic t --input {} --state {} --rate 2000 --checkpoint-interval 2ms \
         --set state.checkpoints.num-retained=3",
        input.display(),
        state.display()
    );
    let (job, looked) = tokio::join!(stage.run(&pipe), async {
        let mut looked = 0;
        while looked < 8 {
            if !state.join("owner").exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                continue;
            }
            for command in ["list", "verify", "show"] {
                let ran =
                    stage.run(&format!("checkpoints {command} --state {} --json", state.display())).await?;
                let early = ran.err.contains("there is no checkpoint here");
                assert!(ran.code == Some(0) || early, "{command}: {ran:?}");
                looked += usize::from(!early);
            }
        }
        Outcome::Ok(())
    });
    looked?;
    assert_eq!(job?.code, Some(0));
    let ran = stage.run(&format!("checkpoints list --state {} --json", state.display())).await?;
    assert_eq!(json_lines(&ran.out).len(), 3, "{ran:?}");
    Ok(())
}
