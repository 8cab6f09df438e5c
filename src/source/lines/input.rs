//! Lines from a file or a stream, with a position that can be kept and found again.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::mpsc;

use super::position::InputPosition;

/// Where lines come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinesInput {
    /// A file; it can be read again from any position.
    File(PathBuf),
    /// The standard input; a restart needs the same stream fed again.
    Stdin,
}

/// Why the input can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// It can't be read.
    #[error("{source_name}: {error}")]
    Io {
        /// The input.
        source_name: String,
        /// What the operating system says.
        #[source]
        error: io::Error,
    },
    /// It ends before the point up to which it was piped already.
    #[error(
        "the input ends after {found} bytes, but {consumed} bytes ({lines} lines) of it were piped already: it is \
         not the input that this state belongs to. Feed the same input again, or use another --state directory"
    )]
    Shorter {
        /// Its length.
        found: u64,
        /// What was consumed.
        consumed: u64,
        /// As many lines.
        lines: u64,
    },
    /// It differs before that point.
    #[error(
        "the first {consumed} bytes ({lines} lines) of the input are not the ones that were piped already: it is not \
         the input that this state belongs to. Feed the same input again, or use another --state directory"
    )]
    Differs {
        /// What was consumed.
        consumed: u64,
        /// As many lines.
        lines: u64,
    },
    /// Its last line had no end when it was piped, and has become longer since.
    #[error(
        "line {line} was piped when it had no line end yet, and has become longer since: its beginning is in the topic"
    )]
    LineGrew {
        /// The line's number.
        line: u64,
    },
    /// A line is too long to be a record.
    #[error("line {line} is longer than {max_bytes} bytes")]
    LineTooLong {
        /// The line's number.
        line: u64,
        /// The limit.
        max_bytes: usize,
    },
}

const CHUNK_BYTES: usize = 64 * 1024;

/// The input, read by a thread of its own, for a blocking read must not stop the job.
#[derive(Debug)]
pub struct Input {
    name: String,
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
    partial: Vec<u8>,
    position: InputPosition,
    before_last: InputPosition,
    /// Set while a line that is too long is being passed over: how far that is.
    passing: Option<InputPosition>,
    line: Vec<u8>,
    max_line_bytes: usize,
    ended: bool,
    /// After an error the thread is gone, and its silence is no end of the input.
    broken: Option<(io::ErrorKind, String)>,
}

impl LinesInput {
    /// Its name, for messages and for the checkpoint.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "-".into(),
        }
    }

    /// True when it can be read again without anybody's help.
    #[must_use]
    pub fn is_seekable(&self) -> bool {
        match self {
            // Not a pipe with a name: what was read from it is gone.
            Self::File(path) => std::fs::metadata(path).is_ok_and(|m| m.is_file()),
            Self::Stdin => false,
        }
    }
}

impl LinesInput {
    /// True when it comes as others feed it.
    pub(super) fn is_stream(&self) -> bool {
        match self {
            Self::File(path) => std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()),
            Self::Stdin => true,
        }
    }
}

impl Input {
    /// Opens the input and goes to `position`, after comparing what comes before with what was consumed.
    ///
    /// # Errors
    /// [`InputError`].
    ///
    /// # Cancel safety
    /// A file can be opened again. What was read of standard input by then is gone.
    pub async fn open(
        source: &LinesInput,
        position: InputPosition,
        max_line_bytes: usize,
    ) -> Result<Self, InputError> {
        let name = source.name();
        let (to_us, chunks) = mpsc::channel(4);
        match source {
            LinesInput::File(path) => {
                let file = open_file(path, &name)?;
                std::thread::spawn(move || read_file(file, &to_us));
            }
            LinesInput::Stdin => _ = std::thread::spawn(move || read_all(io::stdin(), &to_us)),
        }
        let start = InputPosition { source: Arc::from(name.as_str()), ..InputPosition::default() };
        let mut input = Self {
            name,
            chunks,
            chunk: Vec::new(),
            at: 0,
            partial: Vec::new(),
            before_last: start.clone(),
            position: start,
            passing: None,
            line: Vec::new(),
            max_line_bytes,
            ended: false,
            broken: None,
        };
        input.skip_to(position).await?;
        Ok(input)
    }

    /// The position after the last line that was taken.
    #[must_use]
    pub fn position(&self) -> &InputPosition {
        &self.position
    }

    /// The position before the last line that was taken.
    #[must_use]
    pub fn position_before_last(&self) -> &InputPosition {
        &self.before_last
    }

    /// The next line without its end, or `None` at the end of the input. Also a last line without an end counts.
    ///
    /// # Errors
    /// [`InputError`]. After [`LineTooLong`](InputError::LineTooLong) both positions are before that line, and
    /// [`pass_line`](Self::pass_line) goes on behind it.
    ///
    /// # Cancel safety
    /// Cancel safe: a line is taken when it is returned.
    pub async fn next_line(&mut self) -> Result<Option<&[u8]>, InputError> {
        if self.passing.is_some() {
            self.pass_line().await?;
        }
        while !self.cut()? {
            if self.ended {
                return Ok(self.last_line());
            }
            self.more().await?;
        }
        Ok(Some(self.line.strip_suffix(b"\n").unwrap_or(&self.line)))
    }

    /// The next line if it is in memory already.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn ready_line(&mut self) -> Result<Option<&[u8]>, InputError> {
        if self.passing.is_none() && self.cut()? {
            return Ok(Some(self.line.strip_suffix(b"\n").unwrap_or(&self.line)));
        }
        Ok(None)
    }

    /// Passes over a line that is too long.
    ///
    /// # Errors
    /// [`InputError`].
    ///
    /// # Cancel safety
    /// Cancel safe: the position stays before the line until it is passed, and the next call for a line goes on with it.
    pub async fn pass_line(&mut self) -> Result<(), InputError> {
        let begin = std::mem::take(&mut self.partial);
        self.passing.get_or_insert_with(|| self.position.clone()).take_in(&begin);
        while !self.pass_chunk() {
            self.more().await?;
        }
        Ok(())
    }

    /// Passes over what is in the chunk of the line that is being passed over; true at its end.
    fn pass_chunk(&mut self) -> bool {
        let Some(passing) = &mut self.passing else { return true };
        let rest = &self.chunk[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(rest.len(), |end| end + 1);
        passing.take_in(&rest[..taken]);
        self.at += taken;
        if end.is_none() && !self.ended {
            return false;
        }
        passing.lines += 1;
        std::mem::swap(&mut self.position, passing);
        self.before_last = self.passing.take().unwrap_or_default();
        true
    }

    /// Moves one whole line from the chunk to `self.line`.
    fn cut(&mut self) -> Result<bool, InputError> {
        let rest = &self.chunk[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(rest.len(), |end| end + 1);
        if self.partial.len() + taken > self.max_line_bytes {
            let line = self.position.lines + 1;
            self.before_last.clone_from(&self.position);
            return Err(InputError::LineTooLong { line, max_bytes: self.max_line_bytes });
        }
        self.partial.extend_from_slice(&rest[..taken]);
        self.at += taken;
        if end.is_none() {
            return Ok(false);
        }
        self.take();
        Ok(true)
    }

    fn last_line(&mut self) -> Option<&[u8]> {
        if self.partial.is_empty() {
            return None;
        }
        self.take();
        Some(&self.line)
    }

    fn take(&mut self) {
        std::mem::swap(&mut self.line, &mut self.partial);
        self.partial.clear();
        self.before_last.clone_from(&self.position);
        self.position.take_in(&self.line);
        self.position.lines += 1;
    }

    async fn more(&mut self) -> Result<(), InputError> {
        if self.broken.is_none() {
            match self.chunks.recv().await {
                Some(Ok(chunk)) => {
                    self.chunk = chunk;
                    self.at = 0;
                }
                Some(Err(error)) => self.broken = Some((error.kind(), error.to_string())),
                None => self.ended = true,
            }
        }
        let Some((kind, text)) = self.broken.clone() else { return Ok(()) };
        Err(InputError::Io { source_name: self.name.clone(), error: io::Error::new(kind, text) })
    }

    async fn skip_to(&mut self, target: InputPosition) -> Result<(), InputError> {
        let (consumed, lines) = (target.bytes, target.lines);
        let mut left = consumed;
        let mut last = b'\n';
        while left > 0 {
            if self.at == self.chunk.len() {
                self.more().await?;
                if self.ended {
                    return Err(InputError::Shorter { found: consumed - left, consumed, lines });
                }
                continue;
            }
            let rest = &self.chunk[self.at..];
            let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.position.hash.update(&rest[..taken]);
            last = rest[taken - 1];
            self.at += taken;
            left -= taken as u64;
        }
        if self.position.hash.value() != target.hash.value() {
            return Err(InputError::Differs { consumed, lines });
        }
        self.position.bytes = consumed;
        self.position.lines = lines;
        if last != b'\n' {
            self.finish_line(lines).await?;
        }
        Ok(())
    }

    /// The last line that was piped had no end: if it has got one since, that belongs to it.
    async fn finish_line(&mut self, line: u64) -> Result<(), InputError> {
        while self.at == self.chunk.len() && !self.ended {
            self.more().await?;
        }
        match self.chunk.get(self.at).filter(|_| !self.ended) {
            None => Ok(()),
            Some(b'\n') => {
                self.at += 1;
                self.position.take_in(b"\n");
                Ok(())
            }
            Some(_) => Err(InputError::LineGrew { line }),
        }
    }
}

fn open_file(path: &Path, name: &str) -> Result<File, InputError> {
    let io = |error| InputError::Io { source_name: name.to_owned(), error };
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        return Err(io(io::Error::new(io::ErrorKind::InvalidInput, "it is a directory")));
    }
    Ok(file)
}

/// Where a file ends before what was read of it, it was cut meanwhile, perhaps within a line.
fn read_file(mut file: File, to: &mpsc::Sender<io::Result<Vec<u8>>>) {
    // Some that are made when they are read (/proc) call themselves empty.
    let has_length = file.metadata().is_ok_and(|before| before.is_file() && before.len() > 0);
    read_all(&mut file, to);
    let lengths = file.metadata().and_then(|now| Ok((now.len(), file.stream_position()?)));
    if let Ok((length, read)) = lengths {
        if has_length && length < read {
            let told = format!("it was cut to {length} bytes when {read} of them were read already");
            // Nobody may be left to hear it.
            _ = to.blocking_send(Err(io::Error::new(io::ErrorKind::UnexpectedEof, told)));
        }
    }
}

fn read_all(mut from: impl Read, to: &mpsc::Sender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => {
                // Nobody may be left to hear it.
                _ = to.blocking_send(Err(e));
                return;
            }
        };
        chunk.truncate(read);
        if to.blocking_send(Ok(chunk)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
