//! One cluster at a time, shared by the cases that want the same.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Case, Control, Failure, Ground};
use crate::kafka::{KafkaCluster, Spec};
use crate::program::Program;

/// The cluster of the last spec asked for; the one before it is stopped when its last case lets go of it.
#[derive(Debug, Default)]
pub(super) struct Pool {
    current: Mutex<Option<(Spec, Kept)>>,
}

/// A start that failed is kept too: it would fail again, and every case would wait for it.
#[derive(Debug, Clone)]
enum Kept {
    Running(Arc<KafkaCluster>),
    Missing(String),
    Broken(String),
}

impl Pool {
    /// Runs a case on its cluster, or on the one that `KAFKA_BOOTSTRAP` names; an embedded broker belongs to one case.
    pub(super) fn run(&self, case: &Case) -> Result<(), Failure> {
        if case.control == Control::Embedded {
            let program = Program::ensure()?;
            let broker = program.broker(case.spec.transaction_version, &case.options)?;
            return (case.body)(&Ground::embedded(&broker, case));
        }
        if let Some(given) = std::env::var("KAFKA_BOOTSTRAP").ok().filter(|given| !given.is_empty()) {
            return (case.body)(&Ground::given(&given, case)?);
        }
        let cluster = self.cluster(&case.spec)?;
        let outcome = (case.body)(&Ground::launched(Arc::clone(&cluster)));
        if case.control == Control::Nodes {
            self.restore(&cluster);
        }
        outcome
    }

    fn cluster(&self, spec: &Spec) -> Result<Arc<KafkaCluster>, Failure> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = match current.take() {
            // A case that panicked may have left nodes dead.
            Some((of, Kept::Running(cluster))) if of == *spec && cluster.restore().is_ok() => {
                Kept::Running(cluster)
            }
            Some((of, kept @ (Kept::Missing(_) | Kept::Broken(_)))) if of == *spec => kept,
            other => {
                // Stopped before the next one starts: memory is for one cluster.
                drop(other);
                match KafkaCluster::start(spec.clone()) {
                    Ok(cluster) => Kept::Running(Arc::new(cluster)),
                    Err(e) if e.is_missing() => Kept::Missing(e.to_string()),
                    Err(e) => Kept::Broken(e.to_string()),
                }
            }
        };
        *current = Some((spec.clone(), kept.clone()));
        match kept {
            Kept::Running(cluster) => Ok(cluster),
            Kept::Missing(why) => Err(Failure::Missing(why)),
            Kept::Broken(why) => Err(Failure::Wrong(format!("{spec}: {why}"))),
        }
    }

    /// A cluster that does not come back is given up: the next case gets a new one.
    fn restore(&self, cluster: &KafkaCluster) {
        if let Err(why) = cluster.restore() {
            eprintln!("cluster given up: {why}");
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}
