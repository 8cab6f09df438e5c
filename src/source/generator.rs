//! Records of a function.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{Source, SourceError, SourceReader, SplitState, Subtask, pace::Pace};
use crate::{
    net::Clock,
    proto::sealed::{Fields, Seal, StateError},
    record::Record,
};

const SEAL: Seal = Seal { what: "state of a generator's shard", magic: *b"K2PG", newest: 1 };

/// Shards, unless one says otherwise: as many subtasks can share the work.
const SHARDS: u32 = 64;

/// The most records that are handed out at once.
const BATCH: u64 = 256;

type Make = Arc<dyn Fn(u64) -> Record + Send + Sync>;

/// Records of a function: for the index 0, 1, 2 and so on, each exactly once.
///
/// The indices are dealt out to a fixed number of shards, which are the splits: shard `s` of `n` has `s`, `s + n`,
/// `s + 2n` and so on. So a job may go on with any number of subtasks; those beyond the number of shards have nothing to
/// do. A subtask goes through its indices in ascending order.
///
/// ```
/// use kafka_2pc::{record::Record, source::GeneratorSource};
///
/// let planes = GeneratorSource::new(|index| Record::value(format!("plane {index}")).with_key(index.to_string()));
/// let source = planes.limit(1_000_000).records_per_second(500);
/// ```
#[derive(Clone)]
pub struct GeneratorSource {
    make: Make,
    limit: Option<u64>,
    shards: u32,
    per_second: Option<u32>,
}

struct Generator {
    make: Make,
    limit: u64,
    of: u32,
    shards: Vec<Shard>,
    pace: Option<Pace>,
    clock: Clock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    shard: u32,
    /// The index that comes next; `u64::MAX` when none is left.
    next: u64,
}

impl GeneratorSource {
    /// The records that `make` makes of an index. It must make the same of the same index every time: after a crash a
    /// record may be made again.
    pub fn new(make: impl Fn(u64) -> Record + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), limit: None, shards: SHARDS, per_second: None }
    }

    /// Ends before this index. Default: no end.
    #[must_use]
    pub fn limit(self, records: u64) -> Self {
        Self { limit: Some(records), ..self }
    }

    /// The number of shards, at least 1. It is kept in the checkpoint and can't be changed later. Default 64.
    #[must_use]
    pub fn shards(self, shards: u32) -> Self {
        Self { shards: shards.max(1), ..self }
    }

    /// So many records a second, of all subtasks together and evenly; 0 is no limit. What a job missed while it stood
    /// still is not made up for. Default: no limit.
    #[must_use]
    pub fn records_per_second(self, records: u32) -> Self {
        Self { per_second: (records > 0).then_some(records), ..self }
    }

    fn restore(&self, restored: &[SplitState]) -> Result<Vec<Shard>, SourceError> {
        let mut shards: Vec<_> =
            (0..self.shards).map(|shard| Shard { shard, next: u64::from(shard) }).collect();
        for state in restored {
            let (of, found) = Shard::read(&state.state).map_err(SourceError::state(&state.split))?;
            match shards.get_mut(found.shard as usize) {
                Some(shard) if of == self.shards => *shard = found,
                _ => {
                    let here = self.shards;
                    return Err(SourceError::Mismatch(format!("it has {of} shards, the generator {here}")));
                }
            }
        }
        Ok(shards)
    }

    fn reader(&self, subtask: Subtask, restored: &[SplitState]) -> Result<Generator, SourceError> {
        let mut shards = self.restore(restored)?;
        shards.retain(|shard| subtask.owns(&shard.name()));
        let share = shards.len() as f64 / f64::from(self.shards);
        // Without a shard there is nothing to be paced.
        let per_second = self.per_second.filter(|_| !shards.is_empty());
        Ok(Generator {
            make: Arc::clone(&self.make),
            limit: self.limit.unwrap_or(u64::MAX),
            of: self.shards,
            shards,
            pace: per_second.map(|rate| Pace::new(f64::from(rate) * share)),
            clock: Clock::start(),
        })
    }
}

impl Source for GeneratorSource {
    fn open<'a>(
        &'a self,
        subtask: Subtask,
        restored: &'a [SplitState],
    ) -> BoxFuture<'a, Result<Box<dyn SourceReader>, SourceError>> {
        async move { Ok(Box::new(self.reader(subtask, restored)?) as Box<dyn SourceReader>) }.boxed()
    }
}

impl Generator {
    async fn batch(&mut self) -> Result<Option<Vec<Record>>, SourceError> {
        if self.first().is_none() {
            return Ok(None);
        }
        // Others want the thread too; and nothing is taken before the last wait is over.
        tokio::task::yield_now().await;
        let count = match &mut self.pace {
            None => BATCH,
            Some(pace) => loop {
                match pace.allowed(self.clock.now()) {
                    Ok(count) => break count.min(BATCH),
                    Err(due) => self.clock.sleep_until(Some(due)).await,
                }
            },
        };
        let records: Vec<_> = (0..count)
            .map_while(|_| {
                let index = self.take()?;
                Some((self.make)(index))
            })
            .collect();
        if let Some(pace) = &mut self.pace {
            pace.passed(records.len() as u64);
        }
        Ok(Some(records))
    }

    /// The shard with the smallest index that is left.
    fn first(&mut self) -> Option<&mut Shard> {
        let limit = self.limit;
        self.shards.iter_mut().filter(|shard| shard.next < limit).min_by_key(|shard| shard.next)
    }

    fn take(&mut self) -> Option<u64> {
        let step = u64::from(self.of);
        let shard = self.first()?;
        let index = shard.next;
        shard.next = index.saturating_add(step);
        Some(index)
    }
}

impl SourceReader for Generator {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Record>>, SourceError>> {
        self.batch().boxed()
    }

    fn snapshot(&self) -> Vec<SplitState> {
        self.shards.iter().map(|shard| shard.write(self.of)).collect()
    }
}

impl Shard {
    fn name(self) -> String {
        format!("generator-{}", self.shard)
    }

    fn write(self, of: u32) -> SplitState {
        let fields = Fields::default().u64(of.into()).u64(self.shard.into()).u64(self.next);
        SplitState::new(self.name(), SEAL.seal(fields))
    }

    fn read(state: &Bytes) -> Result<(u32, Self), StateError> {
        let mut fields = SEAL.open(state)?;
        let (of, shard, next) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let is_index = next == u64::MAX || of != 0 && next % of == shard;
        match (u32::try_from(of), u32::try_from(shard)) {
            (Ok(of), Ok(shard)) if shard < of && is_index => fields.finish((of, Self { shard, next })),
            _ => fields.damaged("its numbers contradict each other"),
        }
    }
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
