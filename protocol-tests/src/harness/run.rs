//! From cases to a test binary's exit code.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use super::pool::Pool;
use super::{Case, Control, Failure};

/// The `main` of a test binary with `harness = false`: understands the arguments of `cargo test`, runs one test at a time unless told
/// otherwise, and stops every cluster before it returns.
pub fn main(mut cases: Vec<Case>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    // Stable: cases keep their order within a spec. Those that need no Kafka come first.
    cases.sort_by(|one, other| {
        let key = |case: &Case| (case.control != Control::Embedded, case.spec.clone());
        key(one).cmp(&key(other))
    });

    let pool = Arc::new(Pool::default());
    let skipped = Arc::new(Mutex::new(Skipped::new()));
    let trials = cases.into_iter().map(|case| trial(case, &pool, &skipped)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);

    tell(&skipped.lock().unwrap_or_else(PoisonError::into_inner));
    conclusion.exit_code()
}

/// Names of tests that could not run, by reason.
type Skipped = BTreeMap<String, Vec<String>>;

/// Loud, and after the result line: nobody shall take a run without Kafka for a run with it.
fn tell(skipped: &Skipped) {
    let count: usize = skipped.values().map(Vec::len).sum();
    if count > 0 {
        eprintln!(
            "\n{count} test(s) DID NOT RUN. With REQUIRE_KAFKA=1, what this machine lacks is a failure."
        );
    }
    for (why, names) in skipped {
        eprintln!("  {why}\n    {}", names.join("\n    "));
    }
}

fn trial(case: Case, pool: &Arc<Pool>, skipped: &Arc<Mutex<Skipped>>) -> Trial {
    let (pool, skipped) = (Arc::clone(pool), Arc::clone(skipped));
    let name = format!("{} [{}]", case.name, label(&case));
    Trial::ignorable_test(name.clone(), move || match verdict(pool.run(&case), required())? {
        Verdict::Passed => Ok(Completion::Completed),
        Verdict::Ignored(why) => {
            let mut skipped = skipped.lock().unwrap_or_else(PoisonError::into_inner);
            skipped.entry(why.clone()).or_default().push(name);
            Ok(Completion::ignored_with(first_line(&why)))
        }
    })
}

/// Which cluster, in few words: `4.4.0 v2 x3`, `embedded v1`.
fn label(case: &Case) -> String {
    let spec = &case.spec;
    if case.control == Control::Embedded {
        return format!("embedded v{}", spec.transaction_version);
    }
    format!("{} v{} x{}", spec.version, spec.transaction_version, spec.nodes)
}

fn required() -> bool {
    std::env::var("REQUIRE_KAFKA").is_ok_and(|value| !matches!(value.as_str(), "" | "0"))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Ignored(String),
}

fn verdict(outcome: Result<(), Failure>, required: bool) -> Result<Verdict, Failed> {
    match outcome {
        Ok(()) => Ok(Verdict::Passed),
        Err(Failure::Missing(why)) if !required => Ok(Verdict::Ignored(why)),
        Err(Failure::Inapplicable(why)) => Ok(Verdict::Ignored(why)),
        Err(failure) => Err(failure.to_string().into()),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_ignored_and_never_passed() {
        let missing = || Err(Failure::Missing("Java".into()));
        assert_eq!(verdict(missing(), false).ok(), Some(Verdict::Ignored("Java".into())));
        assert!(verdict(missing(), true).is_err());
    }

    #[test]
    fn what_is_about_another_cluster_is_ignored_even_when_kafka_is_required() {
        let outcome = || Err(Failure::Inapplicable("level".into()));
        assert_eq!(verdict(outcome(), true).ok(), Some(Verdict::Ignored("level".into())));
    }

    #[test]
    fn what_is_wrong_fails_whether_kafka_is_required_or_not() {
        for required in [true, false] {
            assert!(verdict(Err(Failure::Wrong("lost".into())), required).is_err());
            assert_eq!(verdict(Ok(()), required).ok(), Some(Verdict::Passed));
        }
    }
}
