//! Options of `pipe` and `mirror` that say what its sink does where there is a choice.

use crate::{
    proto::{
        naming::Naming,
        recovery::{OnLost, Orphans},
    },
    sink::SinkConfig,
};

/// Policies of a sink.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Policy {
    /// How transactional ids are numbered: pooled (few, used again) or incrementing (a new one for each checkpoint)
    /// [default: pooled]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "pooled|incrementing")]
    naming: Option<NamingArg>,
    /// At records of a complete checkpoint that are lost, or of which nothing proves it: fail, or skip and count them
    #[arg(long, value_enum, hide_possible_values = true, value_name = "fail|skip", default_value = "fail")]
    on_lost: OnLostArg,
    /// At a state that is not the newest: refuse, or write-again what was committed since, which doubles it
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "refuse|write-again",
        default_value = "refuse"
    )]
    orphans: OrphansArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum NamingArg {
    /// PREFIX-SUBTASK-SLOT
    Pooled,
    /// PREFIX-SUBTASK-CHECKPOINT
    Incrementing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OrphansArg {
    /// Stop before anything is aborted
    Refuse,
    /// Go on from the older state
    WriteAgain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnLostArg {
    /// Stop
    Fail,
    /// Log, count, and go on without them
    Skip,
}

impl Policy {
    /// Puts them into the sink's settings.
    pub(super) fn apply(&self, sink: &mut SinkConfig) {
        match self.naming {
            Some(NamingArg::Pooled) => sink.naming = Naming::Pooled,
            Some(NamingArg::Incrementing) => sink.naming = Naming::Incrementing,
            None => {}
        }
        sink.on_lost = match self.on_lost {
            OnLostArg::Fail => OnLost::Fail,
            OnLostArg::Skip => OnLost::Skip,
        };
        sink.orphans = match self.orphans {
            OrphansArg::Refuse => Orphans::Refuse,
            OrphansArg::WriteAgain => Orphans::WriteAgain,
        };
    }
}
