//! The source of a job: lines that become records, and a ledger of which became which.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::Notify;

use super::{Job, LineFormat, LineRecord, ledger::Ledger};
use crate::{
    client::Topic,
    record::Record,
    source::{InputPosition, LinesSource, Source, SourceError, SourceReader, SplitState, Subtask},
};

pub(super) struct PipedLines {
    source: LinesSource,
    /// The input's name now.
    name: Arc<str>,
    /// Lines that became records and were not handed out yet.
    taken: Arc<Mutex<Vec<u64>>>,
    ledger: Ledger,
    reading: Arc<Notify>,
}

struct Reader {
    reader: Box<dyn SourceReader>,
    began: InputPosition,
    taken: Arc<Mutex<Vec<u64>>>,
    ledger: Ledger,
    reading: Arc<Notify>,
}

impl PipedLines {
    /// `reading` is told when the job runs.
    pub(super) fn new(job: &Job, topic: Topic, ledger: Ledger, reading: Arc<Notify>) -> Self {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let parser = Parser {
            format: Arc::clone(&job.format),
            refused: job.refused.clone(),
            topic,
            request_bytes: job.sink.request_bytes,
        };
        let lines = Arc::clone(&taken);
        let parse = move |number, line: &[u8]| {
            let record = parser.record(number, line)?;
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(number);
            Ok(record)
        };
        let source = LinesSource::numbered([job.source.clone()], parse)
            .on_bad_line(job.on_bad_line)
            .max_line_bytes(job.line_limit())
            .records_per_second(job.rate.unwrap_or_default());
        Self { source, name: job.source.name().into(), taken, ledger, reading }
    }

    /// A job has one input. It may have another name than before: its bytes say whether it is the same.
    fn renamed(&self, restored: &[SplitState]) -> Result<Option<InputPosition>, SourceError> {
        let Some(state) = restored.first() else { return Ok(None) };
        let position = InputPosition::from_split(state).map_err(SourceError::state(&state.split))?;
        Ok(Some(InputPosition { source: Arc::clone(&self.name), ..position }))
    }
}

impl Source for PipedLines {
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
        async move {
            let began = self.renamed(restored)?;
            let splits: Vec<_> = began.iter().map(InputPosition::to_split).collect();
            let reader = Reader {
                reader: self.source.open(subtask, &splits).await?,
                began: began.unwrap_or_default(),
                taken: Arc::clone(&self.taken),
                ledger: self.ledger.clone(),
                reading: Arc::clone(&self.reading),
            };
            Ok(Box::new(reader) as Box<dyn SourceReader>)
        }
        .boxed()
    }

    /// The state says from the beginning what kind of job it is of.
    fn beginning(&self) -> Vec<SplitState> {
        vec![InputPosition { source: Arc::clone(&self.name), ..InputPosition::default() }.to_split()]
    }
}

impl Reader {
    async fn batch(&mut self) -> Result<Option<Vec<Record>>, SourceError> {
        self.reading.notify_one();
        let records = self.reader.next().await?;
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        self.ledger.took(&taken);
        Ok(records)
    }
}

impl SourceReader for Reader {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
        self.batch().boxed()
    }

    fn snapshot(&self) -> Vec<SplitState> {
        let splits = self.reader.snapshot();
        // It was made just now.
        if let Some(Ok(at)) = splits.first().map(InputPosition::from_split) {
            self.ledger.stands(&at, &self.began);
        }
        splits
    }
}

/// What makes records of lines.
struct Parser {
    format: Arc<dyn LineFormat>,
    refused: BTreeMap<u64, Arc<str>>,
    topic: Topic,
    request_bytes: usize,
}

impl Parser {
    fn record(&self, number: u64, line: &[u8]) -> Result<Record, String> {
        if let Some(why) = self.refused.get(&number) {
            return Err(format!("the broker refused its record: {why}"));
        }
        let record = self.format.parse(line)?.into_record();
        let mut headers = Vec::new();
        let fits = self.topic.fits(record.partition, &record.as_ref(&mut headers), self.request_bytes);
        fits.map(|()| record).map_err(|error| error.to_string())
    }
}

impl Job {
    /// A line may hold a record in a longer form, with base64 and names.
    fn line_limit(&self) -> usize {
        self.sink.request_bytes.saturating_mul(4).max(1 << 20)
    }
}

impl LineRecord<'_> {
    fn into_record(self) -> Record {
        let Self { partition, key, value, headers, timestamp } = self;
        let owned = |part: std::borrow::Cow<'_, [u8]>| part.into_owned().into();
        let headers = headers.into_iter().map(|(key, value)| (owned(key), value.map(owned))).collect();
        Record { partition, key: key.map(owned), value: value.map(owned), headers, timestamp }
    }
}
