//! Every codec, between every two clients: what others write compressed is read by the program, and what the program writes
//! is read by all of them, record by record.
//!
//! `KAFKA_2PC_RECORD=FOLDER` keeps what the others wrote, as `testdata/batches` has it.

use std::path::Path;
use std::time::Duration;

use kafka_2pc_protocol_tests::foreign::{self, End, Library, Reading, Record, Shapes, Writing};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{ConsoleRead, ConsoleWrite, Spec};
use kafka_2pc_protocol_tests::program::Program;
use serde_json::Value;
use tempfile::TempDir;

use crate::job::PATIENCE;
use crate::{Outcome, input};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The folder to keep logs in.
const RECORD: &str = "KAFKA_2PC_RECORD";

const RECORDS: u32 = 60;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, body: fn(&Ground) -> Outcome| Case::nodes(name, Spec::default(), body);
    vec![
        case("codec_of_every_writer_is_read_by_the_program", theirs),
        case("codec_of_the_program_is_read_by_everybody", ours),
        case("codec_levels_change_what_is_written", levels),
    ]
}

/// Whose producer wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Java,
    Librdkafka,
    Aiokafka,
}

impl Writer {
    const ALL: [Self; 3] = [Self::Java, Self::Librdkafka, Self::Aiokafka];

    /// Of its files.
    fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Librdkafka => "librdkafka",
            Self::Aiokafka => "aiokafka",
        }
    }

    /// Writes all records into a new topic of one partition.
    fn write(self, ground: &Ground, codec: &str, folder: &Path) -> Result<String, Failure> {
        let (topic, id) = (ground.topic(self.name(), 1)?, ground.fresh("writer"));
        let (lines, path) = (lines(codec), folder.join(format!("{}-{codec}", self.name())));
        let library = match self {
            Self::Java => {
                let console: Vec<_> = expected(codec).iter().map(|r| r.console_line() + "\n").collect();
                std::fs::write(&path, console.concat())?;
                let null = Record::NULL;
                let write = ConsoleWrite { topic: &topic, compression: codec, lines: &path, null };
                ground.tools()?.console_producer(&write)?;
                return Ok(topic);
            }
            Self::Librdkafka => Library::Confluent,
            Self::Aiokafka => Library::Aiokafka,
        };
        std::fs::write(&path, lines.join("\n") + "\n")?;
        let writing = Writing {
            library,
            lines: Some(&path),
            start: 1,
            shapes: Shapes::All,
            compression: codec,
            linger: Duration::from_millis(300),
            ..Writing::new(ground.bootstrap(), &topic, &id)
        };
        ground.foreign()?.write(&writing, End::Commit)?;
        Ok(topic)
    }
}

/// Without a codec nobody needs long ones.
fn lines(codec: &str) -> Vec<String> {
    foreign::lines(RECORDS, codec != "none")
}

fn expected(codec: &str) -> Vec<Record> {
    (1..).zip(lines(codec)).map(|(number, line)| Record::shaped(number, &line)).collect()
}

/// Without what a writer or a copy cannot keep.
fn without_offsets(mut records: Vec<Record>, keeps_time: bool) -> Vec<Record> {
    for record in &mut records {
        record.offset = 0;
        if !keeps_time {
            record.timestamp_ms = 0;
        }
    }
    records
}

/// Kafka's own tool says that each batch of records is in this codec.
fn expect_codec(ground: &Ground, topic: &str, codec: &str) -> Outcome {
    let folder = ground.cluster()?.partition_folder(1, topic, 0);
    let batches = ground.tools()?.dump_log(&folder)?;
    let mut codecs: Vec<_> =
        batches.iter().filter(|batch| !batch.is_control).map(|batch| batch.codec.as_str()).collect();
    codecs.dedup();
    Failure::unless_equal("codecs", codecs, vec![codec])
}

fn theirs(ground: &Ground) -> Outcome {
    let (program, folder) = (Program::ensure()?, tempfile::tempdir()?);
    for codec in CODECS {
        for writer in Writer::ALL {
            let topic = writer.write(ground, codec, folder.path())?;
            expect_codec(ground, &topic, codec)?;
            let words = ["cat", "--topic", &topic, "--until-end", "--format", "json", "--bootstrap"];
            let words = words.into_iter().chain([ground.bootstrap()]);
            let ended = program.invoke(words).run(PATIENCE)?.expect(0)?;
            let read = ended.stdout.lines().map(record).collect::<Result<Vec<_>, _>>()?;
            let keeps_time = writer != Writer::Java;
            Failure::unless_equal(
                &format!("{codec} of {}", writer.name()),
                without_offsets(read, keeps_time),
                without_offsets(expected(codec), keeps_time),
            )?;
            keep(ground, &topic, &format!("{}-{codec}.log", writer.name()))?;
        }
    }
    Ok(())
}

/// A record as `cat` prints it.
fn record(line: &str) -> Result<Record, Failure> {
    let json: Value = serde_json::from_str(line).map_err(|e| Failure::of(format!("{line}: {e}")))?;
    let number = |name: &str| json[name].as_i64().unwrap_or(-1);
    let bytes = |value: &Value| value.as_str().map(|text| text.as_bytes().to_vec());
    let header =
        |header: &Value| (header["key"].as_str().unwrap_or_default().to_owned(), bytes(&header["value"]));
    Ok(Record {
        partition: i32::try_from(number("partition")).unwrap_or(-1),
        offset: number("offset"),
        timestamp_ms: number("timestamp"),
        key: bytes(&json["key"]),
        value: bytes(&json["value"]),
        headers: json["headers"].as_array().into_iter().flatten().map(header).collect(),
    })
}

/// The log of the topic's only partition, byte by byte, where it is asked for.
fn keep(ground: &Ground, topic: &str, name: &str) -> Outcome {
    let Some(folder) = std::env::var_os(RECORD).filter(|folder| !folder.is_empty()) else { return Ok(()) };
    let log = ground.cluster()?.partition_folder(1, topic, 0).join("00000000000000000000.log");
    std::fs::create_dir_all(&folder)?;
    std::fs::copy(log, Path::new(&folder).join(name))?;
    Ok(())
}

fn ours(ground: &Ground) -> Outcome {
    let (program, folder) = (Program::ensure()?, tempfile::tempdir()?);
    let venv = ground.foreign()?;
    let source = Writer::Librdkafka.write(ground, "gzip", folder.path())?;
    let wanted = without_offsets(expected("gzip"), true);
    // How Kafka's console prints them.
    let shown: Vec<_> =
        wanted.iter().map(|r| if r.value.is_none() { "null".to_owned() } else { r.text() }).collect();
    for codec in CODECS {
        let (copy, prefix) = (ground.topic("copy", 1)?, ground.fresh("codec"));
        let words = ["mirror", "--from", &source, "--to", &copy, "--until-end", "--compression", codec];
        let whereto = ["--transactional-id-prefix", &prefix, "--bootstrap", ground.bootstrap()];
        program.invoke(words.into_iter().chain(whereto)).run(PATIENCE)?.expect(0)?;
        expect_codec(ground, &copy, codec)?;
        for library in Library::ALL {
            let read = venv.read(&Reading::committed(library, ground.bootstrap(), &copy))?;
            Failure::unless_equal(&format!("{codec} by {library:?}"), &without_offsets(read, true), &wanted)?;
        }
        let read = ConsoleRead {
            topic: &copy,
            isolation: "read_committed",
            max_messages: Some(u64::from(RECORDS)),
            idle: Duration::from_secs(10),
        };
        Failure::unless_equal(
            &format!("{codec} by Java"),
            &ground.tools()?.console_consumer(&read)?,
            &shown,
        )?;
    }
    Ok(())
}

/// More effort makes fewer bytes; what is no level is refused by name.
fn levels(ground: &Ground) -> Outcome {
    let (program, folder) = (Program::ensure()?, TempDir::new()?);
    let path = folder.path().join("input");
    input::write(&path, 2_000)?;
    let path = path.display().to_string();
    let run = |topic: &str, setting: &str, code: i32| {
        let prefix = ground.fresh("level");
        let words = ["pipe", "--topic", topic, "--input", &path, "--compression", "gzip", "--set", setting];
        let whereto = ["--transactional-id-prefix", &prefix, "--bootstrap", ground.bootstrap()];
        let ended = program.invoke(words.into_iter().chain(whereto)).run(PATIENCE)?.expect(code)?;
        Ok::<_, Failure>(ended)
    };
    let mut sizes = Vec::new();
    for level in ["1", "9"] {
        let topic = ground.topic("level", 1)?;
        // The same batches in both.
        run(&topic, &format!("compression.gzip.level={level}"), 0)?;
        let folder = ground.cluster()?.partition_folder(1, &topic, 0);
        let batches = ground.tools()?.dump_log(&folder)?;
        sizes.push(batches.iter().filter(|batch| !batch.is_control).map(|batch| batch.bytes).sum::<u64>());
    }
    Failure::unless(sizes[0] > sizes[1], format!("bytes at levels 1 and 9: {sizes:?}"))?;
    for setting in ["compression.gzip.level=10", "compression.lz4.level=0", "compression.zstd.level=23"] {
        let ended = run("not-there", setting, 2)?;
        let (name, level) = setting.split_once('=').unwrap_or_default();
        let named = ended.stderr.contains(name) && ended.stderr.contains("has no compression level");
        Failure::unless(named, format!("{name}={level}: {}", ended.stderr))?;
    }
    Ok(())
}
