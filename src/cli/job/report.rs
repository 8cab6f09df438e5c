//! How a job ended, for people and scripts.

use crate::{
    checkpoint::{
        pipeline::PipelineError,
        runner::{HangingTransaction, LostTransaction, RunError},
    },
    cli::{context::tell, exit::Exit, state::shown},
};

/// Why a job ended early.
pub(in crate::cli) trait Ending {
    /// Whether records are proven to be lost.
    fn is_lost(&self) -> bool;
    /// Whether it can't be known.
    fn is_undecidable(&self) -> bool;
}

impl Ending for PipelineError {
    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn is_undecidable(&self) -> bool {
        self.is_undecidable()
    }
}

impl Ending for RunError {
    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn is_undecidable(&self) -> bool {
        self.is_undecidable()
    }
}

/// The exit code of an error.
pub(in crate::cli) fn exit_of(error: &dyn Ending) -> Exit {
    match (error.is_lost(), error.is_undecidable()) {
        (true, _) => Exit::Lost,
        (false, true) => Exit::Undecidable,
        (false, false) => Exit::Failed,
    }
}

/// Tells what to do about an error, where that needs a decision.
pub(in crate::cli) fn tell_cure(error: &dyn Ending) {
    if error.is_lost() {
        tell(
            "The records are still in the input. To write them again, copy the state directory, move its newest file \
             `checkpoint-NUMBER` out of it, and start the same command again; or pass over them with --on-lost skip.\n\
             Then remove the cause: a job that was away for longer than its transactions live \
             (transaction.timeout.ms), or a second job with the same prefix",
        );
    }
}

/// Tells of a decision whose marker is missing.
pub(in crate::cli) fn tell_hanging(hanging: &HangingTransaction) -> std::io::Result<()> {
    let id = &hanging.transaction.transactional_id;
    let file = hanging.file.as_deref().map(shown).transpose()?;
    let file = file.map(|file| format!(" ({file})")).unwrap_or_default();
    tell(format!(
        "kafka-2pc: {id}{file} is decided, but hangs: readers stall in front of it. `kafka-2pc txn repair --state DIR|URL` \
         or --repair-hanging writes the missing marker"
    ));
    Ok(())
}

/// Tells of transactions that were passed over.
pub(in crate::cli) fn tell_lost(lost: &[LostTransaction]) {
    for LostTransaction { committable, story, .. } in lost {
        let (id, identity, records) =
            (&committable.transactional_id, committable.identity, committable.records());
        tell(format!("kafka-2pc: passed over: {id} ({identity}), {records} records: {story}"));
    }
}

/// The exit code of a job that passed over something.
pub(in crate::cli) fn exit_of_lost(lost: &[LostTransaction]) -> Option<Exit> {
    match lost {
        [] => None,
        lost if lost.iter().any(|lost| lost.proven) => Some(Exit::Lost),
        _ => Some(Exit::Undecidable),
    }
}

/// The summary for people; of the counts only those that are not 0.
pub(in crate::cli) fn told(
    (records, checkpoints): (u64, u64),
    topic: &str,
    counts: &[(u64, &str)],
) -> String {
    let mut told = format!("{records} records into {topic}, {checkpoints} checkpoints");
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        told.push_str(&format!(", {count} {what}"));
    }
    told
}
