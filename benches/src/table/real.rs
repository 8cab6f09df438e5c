//! The rows that need a real Kafka: records a second, commits a second, and the sink as a job.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use kafka_2pc_bench_child::{Job, Outcome, Workload};
use kafka_2pc_benches::cluster::{Cluster, kafka_cluster};

use crate::{
    options::Options,
    report::Row,
    rows::Goal,
    run::{Programs, child, settings},
    scenario::Contender,
};

/// What the rows write to.
const TOPICS: [&str; 4] = ["--topic", "bench-1:1", "--topic", "bench-12:12"];

/// Rows on real Kafka, or why they are missing.
pub(crate) fn rows(options: &Options, programs: &Programs) -> Vec<Row> {
    let ids = ["P9", "S2", "S3", "S4", "S5", "S9"];
    let wanted: Vec<_> = ids.into_iter().filter(|id| options.wants(id)).collect();
    let missing =
        |reason: &str| wanted.iter().map(|id| Row::missing(id, String::new(), reason.into())).collect();
    let Some(real) = &options.real else { return missing("needs real Kafka: --real start") };
    if wanted.is_empty() {
        return Vec::new();
    }
    let cluster = match Cluster::start(real, &TOPICS) {
        Ok(cluster) => cluster,
        Err(error) => return missing(&format!("{error:#}")),
    };
    let runner = Runner { options, programs, bootstrap: &cluster.bootstrap };
    let mut rows = Vec::new();
    for id in wanted {
        match runner.rows(id) {
            Ok(some) => rows.extend(some),
            Err(error) => rows.push(Row::missing(id, String::new(), format!("{error:#}"))),
        }
    }
    rows
}

struct Runner<'a> {
    options: &'a Options,
    programs: &'a Programs,
    bootstrap: &'a str,
}

impl Runner<'_> {
    fn rows(&self, id: &'static str) -> Result<Vec<Row>> {
        match id {
            "P9" => {
                let mut rows = self.throughput(1, Goal::AtLeast(1.6, 2.0), Goal::AtLeast(3.0, 4.0))?;
                rows.extend(self.throughput(12, Goal::AtLeast(1.8, 2.5), Goal::AtLeast(4.0, 6.0))?);
                Ok(rows)
            }
            "S2" => {
                let runs = self.sink(1_000, self.options.size.pick(3_000, 10_000))?;
                let of = |name: &str| runs.iter().map(|run| run.numbers[name]).collect();
                let what = |p: &str| format!("durable to settled, 1,000/s, {p}, ms");
                Ok(vec![
                    Row::measured(id, what("p50"), Goal::AtMost(10.0, 5.0), of("settled_p50")),
                    Row::measured(id, what("p99"), Goal::AtMost(25.0, 15.0), of("settled_p99")),
                ])
            }
            "S3" => {
                let runs = self.sink(0, self.options.size.pick(200_000, 2_000_000))?;
                let values = runs.iter().map(Outcome::cpu_per_million).collect();
                let what = "sink at full rate, CPU s per million".into();
                Ok(vec![Row::measured(id, what, Goal::AtMost(0.6, 0.3), values)])
            }
            "S4" => {
                let runs = self.sink(10_000, self.options.size.pick(20_000, 100_000))?;
                let values = runs.iter().map(|run| run.peak_bytes as f64 / f64::from(1 << 20)).collect();
                let what = "sink at 10,000/s, peak MiB".into();
                Ok(vec![Row::measured(id, what, Goal::AtMost(40.0, 20.0), values)])
            }
            "S5" => {
                let runs = self.sink(1_000, self.options.size.pick(5_000, 10_000))?;
                let values = runs.iter().map(|run| run.numbers["requests"]).collect();
                let what = "requests by checkpoint without Produce".into();
                Ok(vec![Row::measured(id, what, Goal::AtMost(3.0, 2.0), values)])
            }
            _ => self.commits(id),
        }
    }

    fn run(&self, job: Job, contender: Contender) -> Result<Outcome> {
        let job = Job { bootstrap: self.bootstrap.to_owned(), ..job };
        let peers = self.programs.peers.as_ref().context("bench-peers is not built, see benches/README.md");
        let program = if contender.is_peer() { peers? } else { &self.programs.client };
        child(program, &settings(job, contender, self.options)?)
    }

    /// A job of the sink, once a round.
    fn sink(&self, per_second: u32, records: u64) -> Result<Vec<Outcome>> {
        let job = Job {
            workload: Workload::Sink,
            topic: "bench-1".into(),
            record_bytes: 90,
            per_second,
            records,
            ..Job::default()
        };
        (0..self.options.rounds).map(|_| self.run(job.clone(), Contender::Ours)).collect()
    }

    fn commits(&self, id: &'static str) -> Result<Vec<Row>> {
        let job = Job {
            workload: Workload::Pool,
            topic: "bench-1".into(),
            records: 1,
            transactions: self.options.size.pick(200, 2000),
            ..Job::default()
        };
        let peers =
            Job { workload: Workload::Transactions, transactions: job.transactions / 4, ..job.clone() };
        let (mut own, mut raw) = (Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            own.push(self.run(job.clone(), Contender::Ours)?.commits_per_second());
            raw.push(self.run(peers.clone(), Contender::Raw)?.commits_per_second());
        }
        Ok(vec![
            Row::measured(id, "commits/s of one sink, pool of 4".into(), Goal::AtLeast(400.0, 1000.0), own),
            Row::measured(id, "  librdkafka, one id".into(), Goal::Shown, raw),
        ])
    }

    fn throughput(&self, partitions: i32, base: Goal, java: Goal) -> Result<Vec<Row>> {
        let job = Job {
            topic: format!("bench-{partitions}"),
            partitions,
            records: self.options.size.pick(200_000, 1_000_000),
            ..Job::default()
        };
        let (mut own, mut to_base, mut to_java) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            let ours = self.run(job.clone(), Contender::Ours)?.records_per_second();
            own.push(ours);
            to_base.push(ours / self.run(job.clone(), Contender::Base)?.records_per_second());
            to_java.push(ours / self.java(&job)?);
        }
        let what = |of: &str| format!("records/s, real, {partitions} partition(s) / {of}");
        Ok(vec![
            Row::measured("P9", format!("records/s, real, {partitions} partition(s)"), Goal::Shown, own),
            Row::measured("P9", what("BaseProducer"), base, to_base),
            Row::measured("P9", what("ProducerPerformance"), java, to_java),
        ])
    }

    /// Records a second of Java's own measure.
    fn java(&self, job: &Job) -> Result<f64> {
        let (records, bytes) = (job.records.to_string(), job.record_bytes.to_string());
        let properties = [
            ("acks", "all".to_owned()),
            ("enable.idempotence", "true".to_owned()),
            ("batch.size", job.batch_bytes.to_string()),
            ("linger.ms", job.linger.as_millis().to_string()),
            ("buffer.memory", job.buffer_bytes.to_string()),
        ];
        let output = Command::new(kafka_cluster()?)
            .args(["tools", "4.4.0", self.bootstrap, "org.apache.kafka.tools.ProducerPerformance"])
            .args(["--topic", &job.topic, "--num-records", &records, "--record-size", &bytes])
            .args(["--throughput", "-1", "--producer-props"])
            .arg(format!("bootstrap.servers={}", self.bootstrap))
            .args(properties.map(|(name, value)| format!("{name}={value}")))
            .stdin(Stdio::null())
            .output()?;
        let told = String::from_utf8_lossy(&output.stdout);
        let rate = told.lines().rev().find_map(|line| {
            line.split(", ").find_map(|part| part.split_once(" records/sec").map(|(rate, _)| rate.to_owned()))
        });
        let error = || format!("ProducerPerformance: {told}{}", String::from_utf8_lossy(&output.stderr));
        Ok(rate.with_context(error)?.parse()?)
    }
}
