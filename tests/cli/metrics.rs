//! `--metrics`: what Prometheus reads of a job, against what the job says of itself at its end.

mod exposition;

use std::{error::Error, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStderr, Command},
};

use crate::program::{Outcome, Stage, json_lines};
use exposition::Scrape;
use kafka_2pc::broker::Profile;

/// A job that runs, and where its metrics are.
struct Job {
    child: Child,
    address: String,
    /// Kept, so that what it tells does not end it.
    _told: Lines<BufReader<ChildStderr>>,
}

impl Job {
    async fn start(stage: &Stage, words: &str) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kafka-2pc"))
            .args(words.split_whitespace())
            .args(["--metrics", "127.0.0.1:0", "--json", "--bootstrap", &stage.broker.bootstrap()])
            .env_remove("KAFKA_BOOTSTRAP")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut told = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();
        while let Some(line) = told.next_line().await? {
            if let Some((_, url)) = line.split_once("metrics at http://") {
                let address = url.strip_suffix("/metrics").ok_or("no path")?.to_owned();
                return Ok(Self { child, address, _told: told });
            }
        }
        Err("it does not tell where its metrics are".into())
    }

    async fn scrape(&self) -> Result<Scrape, Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: job\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        Ok(Scrape::parse(body)?)
    }

    /// What it shows when so many records are written, committed and visible.
    async fn settled(&self, records: f64) -> Result<Scrape, Box<dyn Error>> {
        for _ in 0..1_500 {
            let scrape = self.scrape().await?;
            let still = ["open_transactions", "pending_committables", "unsettled_transactions"];
            let sum = |name| scrape.sum(&format!("kafka_2pc_{name}"));
            if sum("num_records_out_total") == records && still.iter().all(|name| sum(name) == 0.0) {
                return Ok(scrape);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(format!("it is not settled: {:?}", self.scrape().await?).into())
    }

    /// Its summary.
    async fn ended(self) -> Result<serde_json::Value, Box<dyn Error>> {
        let output = tokio::time::timeout(Duration::from_secs(60), self.child.wait_with_output()).await??;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        Ok(json_lines(&String::from_utf8(output.stdout)?).pop().ok_or("no summary")?)
    }
}

/// Each checkpoint and each commit was counted, and measured once.
#[track_caller]
fn expect_consistent(scrape: &Scrape, summary: &serde_json::Value) {
    let sum = |name: &str| scrape.sum(&format!("kafka_2pc_{name}"));
    assert_eq!(Some(sum("num_records_out_total")), summary["records"].as_f64());
    let (counted, checkpoints) = (sum("number_of_completed_checkpoints_total"), &summary["checkpoints"]);
    assert!(counted > 0.0 && Some(counted) <= checkpoints.as_f64(), "{counted} of {checkpoints}");
    let committed = sum("successful_committables_total");
    assert!(committed > 0.0, "{scrape:?}");
    for latency in ["commit_latency_seconds_count", "visibility_latency_seconds_count"] {
        assert_eq!(sum(latency), committed, "{latency}");
    }
    let none = ["failed_committables_total", "lost_transactions_total", "hanging_transactions"];
    none.iter().for_each(|name| assert_eq!(sum(name), 0.0, "{name}"));
    assert_eq!(sum("recoveries_total"), 1.0);
    assert!(sum("free_transactional_ids") > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_shows_what_its_summary_says() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let words =
        "pipe --topic a --partitions 3 --checkpoint-interval 50ms --transactional-id-prefix it's\"odd\\";
    let mut job = Job::start(&stage, words).await?;
    let lines: String = (0..500).map(|n| format!("{n}\n")).collect();
    let mut input = job.child.stdin.take().ok_or("no stdin")?;
    input.write_all(lines.as_bytes()).await?;
    let scrape = job.settled(500.0).await?;
    assert_eq!(scrape.sum("kafka_2pc_num_bytes_out_total"), (lines.len() - 500) as f64);
    scrape.samples.iter().for_each(|sample| assert_eq!(sample.label("prefix"), Some("it's\"odd\\")));
    drop(input);
    expect_consistent(&scrape, &job.ended().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_shows_each_subtask() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let input = stage.path("input");
    std::fs::write(&input, (0..600).map(|n| format!("{n},{n}\n")).collect::<String>())?;
    let filled = stage
        .run(&format!("pipe --topic a --partitions 4 --key-separator , --input {}", input.display()))
        .await?;
    assert_eq!(filled.code, Some(0), "{filled:?}");
    let words = "mirror --from a --to b --partitions source --parallelism 2 --checkpoint-interval 50ms";
    let job = Job::start(&stage, words).await?;
    let scrape = job.settled(600.0).await?;
    let records = |subtask: &str| scrape.of("kafka_2pc_num_records_out_total", subtask);
    assert!(records("0") > 0.0 && records("1") > 0.0, "{scrape:?}");
    let id = job.child.id().ok_or("it has ended")?;
    assert!(std::process::Command::new("kill").args(["-TERM", &id.to_string()]).status()?.success());
    let summary = job.ended().await?;
    expect_consistent(&scrape, &summary);
    assert_eq!(Some(scrape.sum("kafka_2pc_num_bytes_out_total")), summary["bytes"].as_f64());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_use_is_an_error_at_the_start() -> Outcome {
    let stage = Stage::new(Profile::kafka_4_4(), 1).await?;
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?;
    let ran = stage.run(&format!("pipe --topic a --partitions 1 --metrics {address}")).await?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains(&format!("--metrics {address}: ")) && ran.err.contains("in use"), "{ran:?}");
    assert!(stage.client.topic("a").await.is_err(), "nothing has begun");
    Ok(())
}
