//! The source of lines.

use std::{collections::VecDeque, sync::Arc};

use futures::{FutureExt, future::BoxFuture};

use super::{Input, InputError, InputPosition, LinesInput, OnBadLine};
use crate::{
    net::Clock,
    record::Record,
    source::{Source, SourceError, SourceReader, SplitState, Subtask, pace::Pace},
};

/// The longest line, unless one says otherwise.
const MAX_LINE_BYTES: usize = 4 << 20;

/// The most lines that are handed out at once.
const BATCH: usize = 256;
/// No further line is added to so many bytes of records.
const BATCH_BYTES: usize = 1 << 20;

/// Of a line's number, from 1, and the line.
type Parse = Arc<dyn Fn(u64, &[u8]) -> Result<Record, String> + Send + Sync>;

/// The lines of files or of the standard input, each made into a record.
///
/// Every input is a split, and is read once, to its end. The position is kept with a hash of what was read, so that an
/// input that is another one after a restart is refused ([`InputError::Differs`]); a file that has only grown is read
/// on. Inputs are dealt out to the subtasks in their order. The standard input can't be read again by itself: a restart
/// needs the same stream from its beginning.
///
/// ```
/// use kafka_2pc::{record::Record, source::{LinesInput, LinesSource, OnBadLine}};
///
/// let inputs = ["january.csv", "february.csv"].map(|path| LinesInput::File(path.into()));
/// let source = LinesSource::new(inputs, |line| match line.iter().position(|byte| *byte == b',') {
///     Some(end) => Ok(Record::value(line.to_vec()).with_key(line[..end].to_vec())),
///     None => Err("there is no comma".into()),
/// });
/// let source = source.on_bad_line(OnBadLine::Skip);
/// ```
#[derive(Clone)]
pub struct LinesSource {
    inputs: Vec<LinesInput>,
    parse: Parse,
    on_bad_line: OnBadLine,
    max_line_bytes: usize,
    per_second: Option<u32>,
}

struct LinesReader {
    parse: Parse,
    on_bad_line: OnBadLine,
    max_line_bytes: usize,
    /// The first that waits, being opened. Kept over calls that were given up: what was read of a stream is gone from it.
    opening: Option<BoxFuture<'static, Result<Input, InputError>>>,
    /// The input that is being read.
    open: Option<Reading>,
    waiting: VecDeque<(LinesInput, InputPosition)>,
    finished: Vec<InputPosition>,
    pace: Option<Pace>,
    clock: Clock,
}

struct Reading {
    name: String,
    input: Input,
    /// The line at which it stopped.
    bad: Option<(u64, String)>,
}

impl LinesSource {
    /// Reads these inputs. `parse` gets a line without its end, and tells what is wrong with it if it is no record.
    pub fn new(
        inputs: impl IntoIterator<Item = LinesInput>,
        parse: impl Fn(&[u8]) -> Result<Record, String> + Send + Sync + 'static,
    ) -> Self {
        Self::numbered(inputs, move |_, line| parse(line))
    }

    /// The same; `parse` is also told the line's number in its input, from 1.
    pub fn numbered(
        inputs: impl IntoIterator<Item = LinesInput>,
        parse: impl Fn(u64, &[u8]) -> Result<Record, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inputs: inputs.into_iter().collect(),
            parse: Arc::new(parse),
            on_bad_line: OnBadLine::default(),
            max_line_bytes: MAX_LINE_BYTES,
            per_second: None,
        }
    }

    /// What is done with a line that is no record, or too long. Default: the source stops before it, with
    /// [`SourceError::BadLine`]; a job commits what is before it, and ends with that error.
    #[must_use]
    pub fn on_bad_line(self, on_bad_line: OnBadLine) -> Self {
        Self { on_bad_line, ..self }
    }

    /// The longest line, in bytes. Default 4 MiB.
    #[must_use]
    pub fn max_line_bytes(self, max_line_bytes: usize) -> Self {
        Self { max_line_bytes, ..self }
    }

    /// So many records a second at most, in each subtask; 0 is no limit. What a job missed while it stood still is not made
    /// up for. Default: no limit.
    #[must_use]
    pub fn records_per_second(self, records: u32) -> Self {
        Self { per_second: (records > 0).then_some(records), ..self }
    }

    fn reader(&self, subtask: Subtask, restored: &[SplitState]) -> Result<LinesReader, SourceError> {
        let names: Vec<_> = self.inputs.iter().map(LinesInput::name).collect();
        if let Some(twice) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
            return Err(SourceError::Settings(format!("the input {} is named twice", twice.1)));
        }
        if let Some(other) = restored.iter().find(|state| !names.iter().any(|name| **name == *state.split)) {
            let what = format!("it has read {}, which is no input any more", other.split);
            return Err(SourceError::Mismatch(what));
        }
        let mut waiting = VecDeque::new();
        let ours = self.inputs.iter().zip(names).enumerate().filter(|(n, _)| subtask.owns_nth(*n as u64));
        for (_, (input, name)) in ours {
            let position = match restored.iter().find(|state| *state.split == *name) {
                None => InputPosition { source: name.into(), ..InputPosition::default() },
                Some(state) => InputPosition::from_split(state).map_err(SourceError::state(&state.split))?,
            };
            waiting.push_back((input.clone(), position));
        }
        Ok(LinesReader {
            parse: Arc::clone(&self.parse),
            on_bad_line: self.on_bad_line,
            max_line_bytes: self.max_line_bytes,
            opening: None,
            open: None,
            waiting,
            finished: Vec::new(),
            pace: self.per_second.map(|rate| Pace::new(f64::from(rate))),
            clock: Clock::start(),
        })
    }
}

impl Source for LinesSource {
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
        async move {
            let mut reader = self.reader(subtask, restored)?;
            // What can't be read is told at once where it is the first. A stream is not waited for: it may come later.
            if !reader.waits_for_stream() {
                reader.open_next().await?;
            }
            Ok(Box::new(reader) as Box<dyn SourceReader>)
        }
        .boxed()
    }
}

impl LinesReader {
    async fn batch(&mut self) -> Result<Option<Vec<Record>>, SourceError> {
        loop {
            self.open_next().await?;
            let most = self.allowed().await;
            let Some(reading) = &mut self.open else { return Ok(None) };
            match reading.batch(&self.parse, (self.on_bad_line, most)).await? {
                Some(records) if records.is_empty() => {}
                Some(records) => {
                    if let Some(pace) = &mut self.pace {
                        pace.passed(records.len() as u64);
                    }
                    return Ok(Some(records));
                }
                None => {
                    self.finished.push(reading.input.position().clone());
                    self.open = None;
                }
            }
        }
    }

    /// How many records may come now, after waiting for the first.
    async fn allowed(&mut self) -> usize {
        let Some(pace) = &mut self.pace else { return BATCH };
        loop {
            match pace.allowed(self.clock.now()) {
                Ok(records) => return usize::try_from(records).unwrap_or(BATCH).min(BATCH),
                Err(due) => self.clock.sleep_until(Some(due)).await,
            }
        }
    }

    /// Whether the next input is one that others feed.
    fn waits_for_stream(&self) -> bool {
        self.waiting.front().is_some_and(|(input, _)| input.is_stream())
    }

    async fn open_next(&mut self) -> Result<(), SourceError> {
        if self.open.is_some() {
            return Ok(());
        }
        let Some((from, position)) = self.waiting.front() else { return Ok(()) };
        let name = from.name();
        let opening = self.opening.get_or_insert_with(|| {
            let (from, position, most) = (from.clone(), position.clone(), self.max_line_bytes);
            async move { Input::open(&from, position, most).await }.boxed()
        });
        let opened = opening.await;
        self.opening = None;
        let input = opened.map_err(failed(&name))?;
        self.open = Some(Reading { name, input, bad: None });
        self.waiting.pop_front();
        Ok(())
    }
}

impl Reading {
    /// The records of the lines that are in memory, after waiting for one; none if all were passed over, and `None` at
    /// the end.
    async fn batch(
        &mut self,
        parse: &Parse,
        (on_bad, most): (OnBadLine, usize),
    ) -> Result<Option<Vec<Record>>, SourceError> {
        if let Some((line, why)) = &self.bad {
            return Err(self.bad_line(*line, why.clone()));
        }
        let mut records = Vec::new();
        let number = self.input.position().lines + 1;
        match self.input.next_line().await {
            Ok(None) => return Ok(None),
            Ok(Some(line)) => {
                let parsed = parse(number, line);
                self.take(parsed, on_bad, &mut records);
            }
            Err(error) => self.unreadable(error, on_bad).await?,
        }
        // From here on nothing waits, so that nothing that was taken is lost.
        let mut bytes = 0;
        while records.len() < most && bytes < BATCH_BYTES && self.bad.is_none() {
            // An error comes again with the next call.
            let number = self.input.position().lines + 1;
            let Ok(Some(line)) = self.input.ready_line() else { break };
            bytes += line.len();
            let parsed = parse(number, line);
            self.take(parsed, on_bad, &mut records);
        }
        Ok(Some(records))
    }

    fn take(&mut self, parsed: Result<Record, String>, on_bad: OnBadLine, to: &mut Vec<Record>) {
        let number = self.input.position().lines;
        match (parsed, on_bad) {
            (Ok(record), _) => to.push(record),
            (Err(why), OnBadLine::Stop) => self.bad = Some((number, why)),
            (Err(why), OnBadLine::Skip) => self.passed(number, &why),
        }
    }

    /// A line that is too long is a bad line; anything else ends the reading.
    async fn unreadable(&mut self, error: InputError, on_bad: OnBadLine) -> Result<(), SourceError> {
        let InputError::LineTooLong { line, max_bytes } = error else {
            return Err(failed(&self.name)(error));
        };
        let why = format!("it is longer than {max_bytes} bytes");
        match on_bad {
            OnBadLine::Stop => Err(self.bad_line(line, why)),
            OnBadLine::Skip => {
                self.passed(line, &why);
                self.input.pass_line().await.map_err(failed(&self.name))
            }
        }
    }

    fn passed(&self, line: u64, why: &str) {
        tracing::warn!(input = self.name, line, "passed over: {why}");
    }

    fn bad_line(&self, line: u64, why: String) -> SourceError {
        SourceError::BadLine { input: self.name.clone(), line, why }
    }

    fn position(&self) -> &InputPosition {
        match self.bad {
            Some(_) => self.input.position_before_last(),
            None => self.input.position(),
        }
    }
}

impl SourceReader for LinesReader {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
        self.batch().boxed()
    }

    fn snapshot(&self) -> Vec<SplitState> {
        let waiting = self.waiting.iter().map(|(_, position)| position);
        let open = self.open.iter().map(Reading::position);
        self.finished.iter().chain(open).chain(waiting).map(InputPosition::to_split).collect()
    }
}

fn failed(name: &str) -> impl FnOnce(InputError) -> SourceError {
    let input = name.to_owned();
    |error| SourceError::Input { input, error }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
