//! The steps of a job at which a crash is interesting, and a way to watch them.

use std::{
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use crate::{
    net::{Probe, ProbeEvent},
    sink::RecoveryPhase,
    wire::api::Api,
};

/// A step that a job is about to pass, or has just passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A record was accepted.
    Write,
    /// A Produce request was written; not everything is acknowledged.
    Flush,
    /// A committable is in memory.
    Prepared,
    /// Half of a checkpoint's bytes are in its temporary file.
    StoreHalf,
    /// A checkpoint is durable.
    Durable,
    /// EndTxn was written; its answer was not read.
    EndTxnSent,
    /// EndTxn was answered; nothing was stored.
    EndTxnAnswered,
    /// During recovery: EndTxn of a restored committable was written; its answer was not read.
    RecoveryCommit,
    /// During recovery: the fence of a leftover was written; its answer was not read.
    LeftoverAbort,
}

/// Something else worth a line in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Recovery begins.
    Recovery,
    /// Recovery is done.
    Recovered {
        /// Transactions of the restored checkpoint that are committed now.
        resumed: u64,
        /// Leftovers that were aborted.
        aborted: u64,
    },
    /// A checkpoint begins: no record is written until its transaction is prepared.
    Prepare,
    /// A checkpoint is complete.
    Checkpoint(u64),
    /// A part of a checkpoint is done, and took so long.
    Took(Part, Duration),
}

/// The parts of a checkpoint whose time is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From the last record until a committable is in memory: everything is acknowledged then.
    Prepare,
    /// From the durable checkpoint until the coordinator has decided.
    Commit,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Write,
        Self::Flush,
        Self::Prepared,
        Self::StoreHalf,
        Self::Durable,
        Self::EndTxnSent,
        Self::EndTxnAnswered,
        Self::RecoveryCommit,
        Self::LeftoverAbort,
    ];

    /// Its name in scripts and traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Prepared => "prepared",
            Self::StoreHalf => "store-half",
            Self::Durable => "durable",
            Self::EndTxnSent => "endtxn-sent",
            Self::EndTxnAnswered => "endtxn-answered",
            Self::RecoveryCommit => "recovery-commit",
            Self::LeftoverAbort => "leftover-abort",
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|step| step.name() == text);
        found.ok_or_else(|| format!("{text:?} is none of {}", names()))
    }
}

type OnStep = dyn Fn(Step) + Send + Sync;
type OnNote = dyn Fn(Note) + Send + Sync;

/// Watches a job. The callbacks run where the step happens, and may end the process.
#[derive(Clone)]
pub struct Steps {
    on_step: Arc<OnStep>,
    on_note: Arc<OnNote>,
    phase: Arc<AtomicU8>,
}

const RECOVERING: u8 = 0;
const RECOVERY_COMMIT: u8 = 1;
const RECOVERY_FENCE: u8 = 2;
const RUNNING: u8 = 3;

impl Steps {
    /// Watches with these callbacks.
    pub fn new(
        on_step: impl Fn(Step) + Send + Sync + 'static,
        on_note: impl Fn(Note) + Send + Sync + 'static,
    ) -> Self {
        let phase = Arc::new(AtomicU8::new(RECOVERING));
        Self { on_step: Arc::new(on_step), on_note: Arc::new(on_note), phase }
    }

    /// What the job's client must be given, so that steps on the wire are seen.
    #[must_use]
    pub fn probe(&self) -> Probe {
        let steps = self.clone();
        Probe::new(move |event| steps.wire(event))
    }

    pub(super) fn step(&self, step: Step) {
        (self.on_step)(step);
    }

    pub(super) fn note(&self, note: Note) {
        let phase = match note {
            Note::Recovery => Some(RECOVERING),
            Note::Recovered { .. } => Some(RUNNING),
            Note::Prepare | Note::Checkpoint(_) | Note::Took(..) => None,
        };
        if let Some(phase) = phase {
            self.phase.store(phase, Ordering::Release);
        }
        (self.on_note)(note);
    }

    pub(super) fn recovery(&self, phase: RecoveryPhase) {
        let phase = match phase {
            RecoveryPhase::Commit => RECOVERY_COMMIT,
            RecoveryPhase::Fence => RECOVERY_FENCE,
            RecoveryPhase::Look | RecoveryPhase::Settle => RECOVERING,
        };
        self.phase.store(phase, Ordering::Release);
    }

    fn wire(&self, event: ProbeEvent) {
        let step = match (self.phase.load(Ordering::Acquire), event) {
            (RUNNING, ProbeEvent::Written(Api::Produce)) => Step::Flush,
            (RUNNING, ProbeEvent::Written(Api::EndTxn)) => Step::EndTxnSent,
            (RUNNING, ProbeEvent::Answered(Api::EndTxn)) => Step::EndTxnAnswered,
            (RECOVERY_COMMIT, ProbeEvent::Written(Api::EndTxn)) => Step::RecoveryCommit,
            (RECOVERY_FENCE, ProbeEvent::Written(Api::InitProducerId)) => Step::LeftoverAbort,
            _ => return,
        };
        self.step(step);
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::new(|_| {}, |_| {})
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}
