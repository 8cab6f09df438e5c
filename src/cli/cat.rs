//! `kafka-2pc cat`: reads a topic to standard output.

use std::{
    collections::HashMap,
    io::{self, Write},
    time::Duration,
};

use super::{
    Context, Exit, Usage,
    format::{Format, FormatName},
};
use crate::{
    client::{Client, Consumer, ConsumerError, ConsumerRecord, Isolation, Start},
    ids::TopicPartition,
};

/// How long a partition whose last records are all aborted may keep us waiting, at most, without a look at where it
/// stands.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Topic to read
    #[arg(long)]
    topic: String,
    /// Which records: committed, or uncommitted (also those of open and aborted transactions)
    #[arg(long, value_enum, hide_possible_values = true, value_name = "LEVEL", default_value = "committed")]
    isolation: IsolationName,
    /// Where to begin; an offset needs --partition
    #[arg(long, value_name = "beginning|end|OFFSET", default_value = "beginning", value_parser = from)]
    from: Start,
    /// Read partition P only
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Stop after N records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop at the end of what is readable now
    #[arg(long)]
    until_end: bool,
    /// What is printed: lines (values) or json (objects) [default: lines, or json with --json]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "lines|json")]
    format: Option<FormatName>,
    /// With --format lines: print the key and S before the value
    #[arg(long, value_name = "S")]
    key_separator: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum IsolationName {
    Committed,
    Uncommitted,
}

fn from(text: &str) -> Result<Start, String> {
    match text {
        "beginning" => Ok(Start::Beginning),
        "end" => Ok(Start::End),
        offset => match offset.parse() {
            Ok(offset @ 0..) => Ok(Start::Offset(offset)),
            Ok(_) | Err(_) => Err("it is `beginning`, `end` or an offset".to_owned()),
        },
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let usual = if context.json() { FormatName::Json } else { FormatName::Lines };
    let format = Format::new(args.format.unwrap_or(usual), args.key_separator.as_deref())?;
    let client = context.client()?;
    let isolation = match args.isolation {
        IsolationName::Committed => Isolation::Committed,
        IsolationName::Uncommitted => Isolation::Uncommitted,
    };
    let places = partitions(&client, &args).await?;
    let mut consumer = client.consumer().isolation(isolation).build();
    consumer.assign(places.into_iter().map(|place| (place, args.from)));
    let mut printer = Printer { format, left: args.limit.unwrap_or(u64::MAX), line: Vec::new() };
    if !args.until_end {
        while printer.left > 0 {
            printer.print(consumer.next_batch().await?.iter())?;
        }
        return Ok(Exit::Done);
    }
    // The high watermark first: what hides behind the last stable offset was there before it then.
    let high = consumer.end_offsets(Isolation::Uncommitted).await?;
    let ends = match isolation {
        Isolation::Uncommitted => high.clone(),
        Isolation::Committed => consumer.end_offsets(Isolation::Committed).await?,
    };
    let begins = consumer.beginning_offsets().await?;
    is_there(args.from, &begins, &high)?;
    read_until(&mut consumer, (args.from, &begins), ends.clone(), &mut printer).await?;
    if printer.left > 0 {
        warn_of_hidden(context, &high, &ends);
    }
    Ok(Exit::Done)
}

async fn partitions(client: &Client, args: &Args) -> anyhow::Result<Vec<TopicPartition>> {
    let topic = client.topic(&args.topic).await?;
    let count = topic.partitions();
    let chosen = match args.partition {
        Some(partition) if partition >= count => {
            anyhow::bail!(
                "topic {} has {count} partitions, there is none with number {partition}",
                args.topic
            )
        }
        Some(partition) => partition..partition + 1,
        None if count > 1 && matches!(args.from, Start::Offset(_)) => {
            let message =
                format!("--from OFFSET needs --partition: topic {} has {count} partitions", args.topic);
            return Err(Usage(message).into());
        }
        None => 0..count,
    };
    Ok(chosen.map(|partition| TopicPartition::new(topic.name().clone(), partition)).collect())
}

/// An offset that the log does not hold is no place to begin, also if there is nothing to be read until the end: who
/// reads on would be refused as well.
///
/// # Errors
/// [`ConsumerError::OutOfRange`].
fn is_there(
    from: Start,
    begins: &HashMap<TopicPartition, i64>,
    high: &HashMap<TopicPartition, i64>,
) -> Result<(), ConsumerError> {
    let Start::Offset(wanted) = from else { return Ok(()) };
    for (place, end) in high {
        let available = begins.get(place).copied().unwrap_or(0)..*end;
        if wanted != available.end && !available.contains(&wanted) {
            return Err(ConsumerError::OutOfRange { partition: place.clone(), wanted, available });
        }
    }
    Ok(())
}

/// Prints what lies before `ends`, and takes every partition that is there out of the assignment.
async fn read_until(
    consumer: &mut Consumer,
    (from, begins): (Start, &HashMap<TopicPartition, i64>),
    mut ends: HashMap<TopicPartition, i64>,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let start = |place: &TopicPartition| match from {
        Start::Beginning => begins.get(place).copied().unwrap_or(0),
        Start::End => i64::MAX,
        Start::Offset(offset) => offset,
    };
    loop {
        ends.retain(|place, end| {
            let left = consumer.position(place).unwrap_or_else(|| start(place)) < *end;
            if !left {
                consumer.unassign(place);
            }
            left
        });
        if ends.is_empty() || printer.left == 0 {
            return Ok(());
        }
        let batch = consumer.poll(LOOK_AGAIN).await?;
        let end = |r: &ConsumerRecord| {
            ends.get(&TopicPartition::new(r.topic.clone(), r.partition)).copied().unwrap_or(0)
        };
        printer.print(batch.iter().filter(|r| r.record.offset < end(r)))?;
    }
}

fn warn_of_hidden(
    context: &Context,
    high: &HashMap<TopicPartition, i64>,
    stable: &HashMap<TopicPartition, i64>,
) {
    let mut hidden: Vec<_> = high
        .iter()
        .filter_map(|(place, high)| {
            let stable = stable.get(place).copied().unwrap_or(*high);
            (stable < *high).then(|| format!("{place} (offsets {stable} to {})", high - 1))
        })
        .collect();
    if !hidden.is_empty() {
        hidden.sort();
        context.warn(format!(
            "open transactions hide later records of {}. `kafka-2pc txn list --open` shows them; if their job is \
             down, start it again, and if it never will be, `kafka-2pc txn leftovers --prefix P --abort --force`",
            hidden.join(", ")
        ));
    }
}

struct Printer {
    format: Format,
    left: u64,
    line: Vec<u8>,
}

impl Printer {
    fn print<'a>(&mut self, records: impl Iterator<Item = &'a ConsumerRecord>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for record in records {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            self.format.print(record, &mut self.line);
            if self.line.len() > 1 << 16 {
                out.write_all(&self.line)?;
                self.line.clear();
            }
        }
        out.write_all(&self.line)?;
        self.line.clear();
        out.flush()
    }
}
