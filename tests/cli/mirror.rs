//! `kafka-2pc mirror`: copies that are equal record by record, through kills, and what is refused.

mod offsets;
mod refused;
mod topics;

use std::{error::Error, process::Stdio, time::Duration};

use crate::program::{Outcome, Ran, Stage, json_lines};
use kafka_2pc::broker::Profile;
pub(crate) use topics::fill;
use topics::{Contents, contents};

/// Two clusters, and what is copied between them: `a` into `b`.
pub(crate) struct Pair {
    pub(crate) from: Stage,
    pub(crate) to: Stage,
}

const PARTITIONS: i32 = 3;

impl Pair {
    pub(crate) async fn new(profile: Profile) -> Result<Self, Box<dyn Error>> {
        let from = Stage::new(profile.clone(), 1).await?;
        let to = Stage::new(profile, 1).await?;
        from.broker.create_topic("a", PARTITIONS)?;
        Ok(Self { from, to })
    }

    fn words(&self, options: &str) -> String {
        format!(
            "mirror --from a --to b --from-bootstrap {} --partitions source --set fetch.max.wait.ms=20 {options}",
            self.from.broker.bootstrap()
        )
    }

    fn stateful(&self, options: &str) -> String {
        let state = self.to.path("state");
        self.words(&format!("--state {} --checkpoint-interval 20ms --json {options}", state.display()))
    }

    pub(crate) async fn mirror(&self, options: &str) -> Result<Ran, Box<dyn Error>> {
        self.to.run(&self.words(options)).await
    }

    /// Copies to the end, with a state.
    async fn finish(&self) -> Result<serde_json::Value, Box<dyn Error>> {
        let ran = self.to.run(&self.stateful("--until-end")).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        // Some brokers have no topic ids, which is warned about.
        assert!(ran.err.lines().all(|line| line.contains("no topic ids")), "{ran:?}");
        Ok(json_lines(&ran.out).pop().ok_or("nothing was printed")?)
    }

    async fn both(&self) -> Result<(Contents, Contents), Box<dyn Error>> {
        Ok((contents(&self.from.client, "a").await?, contents(&self.to.client, "b").await?))
    }

    pub(crate) async fn expect_equal(&self) -> Result<u64, Box<dyn Error>> {
        let (a, b) = self.both().await?;
        assert_eq!(a.len(), b.len());
        for (place, (a, b)) in a.iter().zip(&b).enumerate() {
            assert_eq!(a, b, "record {place}");
        }
        Ok(a.len() as u64)
    }

    /// Starts it as a process of its own, without an end.
    fn start(&self, options: &str) -> Result<tokio::process::Child, Box<dyn Error>> {
        self.start_to(options, None)
    }

    /// The same, and it kills itself at this point.
    fn start_to(&self, options: &str, point: Option<&str>) -> Result<tokio::process::Child, Box<dyn Error>> {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_kafka-2pc"));
        command.args(self.stateful(options).split_whitespace());
        command.args(["--bootstrap", &self.to.broker.bootstrap()]);
        command.env_remove("KAFKA_BOOTSTRAP").envs(point.map(|point| ("KAFKA_2PC_CRASH", point)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Ok(command.spawn()?)
    }

    /// Waits until the copy has so many records.
    async fn until_copied(&self, records: usize) -> Outcome {
        for _ in 0..1_000 {
            if self.to.client.topic("b").await.is_ok()
                && contents(&self.to.client, "b").await?.len() >= records
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err("the copy does not grow".into())
    }
}

fn signal(child: &tokio::process::Child, signal: &str) -> Outcome {
    let id = child.id().ok_or("it has ended")?;
    let status = std::process::Command::new("kill").args([signal, &id.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill: {status}").into()) }
}

async fn ended(child: tokio::process::Child) -> Result<Ran, Box<dyn Error>> {
    let output = tokio::time::timeout(Duration::from_secs(60), child.wait_with_output()).await??;
    Ok(Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_equal_record_by_record() -> Outcome {
    for (profile, parallelism) in [(Profile::kafka_4_4(), 1), (Profile::kafka_4_4_v1(), 3)] {
        let pair = Pair::new(profile).await?;
        let written = fill(&pair.from.client, "a", 0).await?;
        let ran = pair.mirror(&format!("--until-end --parallelism {parallelism} --json")).await?;
        let told = json_lines(&ran.out).pop().ok_or("nothing was printed")?;
        assert_eq!((ran.code, told["records"].as_u64()), (Some(0), Some(written)), "{ran:?}");
        assert_eq!((told["finished"].as_bool(), told["hanging"].as_u64()), (Some(true), Some(0)));
        assert!(ran.err.contains("without --state nothing survives a crash"), "{ran:?}");
        assert_eq!(pair.expect_equal().await?, written, "aborted records are not copied");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_equal_wherever_it_was_killed() -> Outcome {
    // The recovery points need what the one before leaves.
    const POINTS: [&str; 10] = [
        "write:50",
        "flush:2",
        "prepared",
        "leftover-abort",
        "store-half:2",
        "durable",
        "recovery-commit",
        "endtxn-sent",
        "endtxn-answered:2",
        "durable:3",
    ];
    for profile in Profile::all() {
        let pair = Pair::new(profile).await?;
        for (round, point) in (0..).zip(POINTS) {
            let (mut written, mut turns) = (0, 0);
            let mut child = pair.start_to("--parallelism 2", Some(point))?;
            // It dies while there is still something to copy.
            while child.try_wait()?.is_none() {
                written += fill(&pair.from.client, "a", round * 100_000 + written).await?;
                turns += 1;
                assert!(turns < 1_000, "it does not come to {point}");
            }
            let ran = ended(child).await?;
            assert_eq!(ran.code, None, "{point}: {ran:?}");
        }
        pair.finish().await?;
        pair.expect_equal().await?;
        let open = pair.to.run("txn list --open --json").await?;
        assert_eq!((open.code, open.out.as_str()), (Some(0), ""), "{open:?}");
        // What was prepared and never listed is not kept as if it waited for its commit.
        let kept = std::fs::read_dir(pair.to.path("state").join("committables"))?.count();
        let listed = kafka_2pc::checkpoint::read_newest(&pair.to.path("state"))?.ok_or("no checkpoint")?;
        assert_eq!((kept, listed.committables.len()), (0, 0));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_copy_goes_on_with_what_was_written_since() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    let mut all = 0;
    for turn in 0..3 {
        let written = fill(&pair.from.client, "a", turn * 100_000).await?;
        all += written;
        let told = pair.finish().await?;
        assert_eq!((told["records"].as_u64(), told["finished"].as_bool()), (Some(written), Some(true)));
        assert_eq!(pair.finish().await?["records"], 0, "there is nothing more");
        assert_eq!(pair.expect_equal().await?, all);
    }
    // Partitions that were added to both belong to it.
    pair.to.broker.add_partitions("b", 5);
    pair.from.broker.add_partitions("a", 5);
    all += fill(&pair.from.client, "a", 900_000).await?;
    pair.finish().await?;
    assert_eq!(pair.expect_equal().await?, all);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_completes_a_checkpoint_and_the_next_run_copies_the_rest() -> Outcome {
    for name in ["-TERM", "-INT"] {
        let pair = Pair::new(Profile::kafka_4_4()).await?;
        let written = fill(&pair.from.client, "a", 0).await?;
        let child = pair.start("")?;
        pair.until_copied(usize::try_from(written)?).await?;
        signal(&child, name)?;
        let ran = ended(child).await?;
        let told = json_lines(&ran.out).pop().ok_or("nothing was printed")?;
        assert_eq!((ran.code, told["records"].as_u64()), (Some(0), Some(written)), "{ran:?}");
        assert_eq!(told["finished"], false);
        let more = fill(&pair.from.client, "a", 100_000).await?;
        let told = pair.finish().await?;
        let numbers = ["records", "resumed", "aborted"].map(|name| told[name].as_u64());
        assert_eq!(numbers, [Some(more), Some(0), Some(0)]);
        pair.expect_equal().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_the_target_lacks_stops_it_and_one_that_it_has_got_does_not() -> Outcome {
    let pair = Pair::new(Profile::kafka_4_4()).await?;
    fill(&pair.from.client, "a", 0).await?;
    let options = "--set partition.discovery.interval.ms=50";
    let child = pair.start(options)?;
    pair.until_copied(1).await?;
    pair.from.broker.add_partitions("a", 4);
    fill(&pair.from.client, "a", 100_000).await?;
    let ran = ended(child).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("partition 3 of a was added and has records, but b has 3"), "{ran:?}");
    let ran = pair.to.run(&pair.stateful(options)).await?;
    assert!(ran.code == Some(1) && ran.err.contains("b has 3 partitions, fewer than 4 of a"), "{ran:?}");

    pair.to.broker.add_partitions("b", 4);
    let child = pair.start(options)?;
    pair.until_copied(1).await?;
    pair.to.broker.add_partitions("b", 5);
    pair.from.broker.add_partitions("a", 5);
    fill(&pair.from.client, "a", 200_000).await?;
    let written = contents(&pair.from.client, "a").await?.len();
    pair.until_copied(written).await?;
    signal(&child, "-TERM")?;
    assert_eq!(ended(child).await?.code, Some(0));
    pair.expect_equal().await?;
    Ok(())
}

/// A commit whose marker was lost hangs, and is told with the file from which it can be repaired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_hangs_is_told_with_its_file() -> Outcome {
    for profile in [Profile::kafka_4_4(), Profile::kafka_4_4_v1()] {
        let stage = Stage::new(profile, 2).await?;
        stage.broker.create_topic_on("a", vec![vec![1]])?;
        stage.broker.create_topic_on("b", vec![vec![2]])?;
        let input = stage.path("input");
        std::fs::write(&input, "one\ntwo\n")?;
        assert_eq!(stage.run(&format!("pipe --topic a --input {}", input.display())).await?.code, Some(0));
        // The coordinator of its transaction is on the node that stays.
        let coordinated = |n: &u32| stage.broker.transaction_coordinator(&format!("job{n}-0-0")) == Some(1);
        let prefix = (0..).find(coordinated).map(|n| format!("job{n}")).ok_or("no prefix")?;
        let state = stage.path("state");
        let words = format!(
            "mirror --from a --to b --until-end --json --transactional-id-prefix {prefix} --state {}",
            state.display()
        );
        assert_eq!(stage.run_to(&words, Some("durable")).await?.code, None);
        let files: Vec<_> = std::fs::read_dir(state.join("committables"))?.collect::<Result<_, _>>()?;
        let [file] = &files[..] else { return Err(format!("{files:?}").into()) };
        let file = file.path().display().to_string();
        stage.broker.stop_node(2).await?;
        let ran = stage.run(&format!("txn commit {file} --no-wait-for-leader --json --timeout 3s")).await?;
        assert_eq!(json_lines(&ran.out)[0]["outcome"], "hanging", "{ran:?}");
        stage.broker.start_node(2).await?;
        let ran = stage.run(&words).await?;
        assert_eq!((ran.code, json_lines(&ran.out)[0]["hanging"].as_u64()), (Some(1), Some(1)), "{ran:?}");
        assert!(ran.err.contains(&format!("{prefix}-0-0 ({file}) is decided, but hangs")), "{ran:?}");
        let ran = stage.run(&format!("{words} --repair-hanging")).await?;
        assert_eq!((ran.code, json_lines(&ran.out)[0]["hanging"].as_u64()), (Some(0), Some(0)), "{ran:?}");
        assert_eq!(stage.run("cat --topic b --until-end").await?.out, "one\ntwo\n");
    }
    Ok(())
}
