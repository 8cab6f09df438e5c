//! Every row, on the arms of a test run; see `protocol-tests report` for all of them.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use protocol_tests::arm::Arm;
use protocol_tests::outcome::Outcome;
use protocol_tests::run::Runner;
use protocol_tests::table::{self, Entry, Where};

fn main() -> ExitCode {
    if let Some(code) = protocol_tests::writer::if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // One real cluster at a time, and traces of the embedded broker before those of real ones.
    arguments.test_threads.get_or_insert(1);
    let entries = match table::entries() {
        Ok(entries) => entries,
        Err(failure) => {
            eprintln!("conformance.toml: {}", Outcome::from(Err(failure)).why());
            return ExitCode::FAILURE;
        }
    };
    let full = std::env::var("KAFKA_2PC_SIZE").is_ok_and(|size| size == "full");
    let arms = if full { Arm::all() } else { Arm::quick() };
    let runner = Arc::new(Runner::default());
    let mut trials = vec![Trial::test("the table and the tests name the same rows", same_rows)];
    for arm in arms {
        for row in entries.iter().filter(|row| arm.is_for(row)) {
            trials.push(trial(&runner, row.clone(), arm.clone()));
        }
    }
    for arm in Arm::quick().into_iter().filter(|arm| matches!(arm, Arm::Embedded(_))) {
        let rows: Vec<_> =
            entries.iter().filter(|row| arm.is_for(row) && repeats(row, &arm)).cloned().collect();
        trials.push(Trial::test(format!("rows show the same each time [{arm}]"), move || {
            let failed = |shown| Failed::from(Outcome::from(shown).why().to_owned());
            rows.iter().try_for_each(|row| Runner::default().repeats(row, &arm)).map_err(|f| failed(Err(f)))
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Whether what a row shows can be compared with what it showed.
fn repeats(row: &Entry, arm: &Arm) -> bool {
    row.place == Where::Both && row.awaits.is_none() && arm.lacks(row).is_none()
}

fn trial(runner: &Arc<Runner>, row: Entry, arm: Arm) -> Trial {
    let runner = Arc::clone(runner);
    Trial::ignorable_test(format!("{} [{arm}]", row.id), move || {
        let required = std::env::var("REQUIRE_KAFKA").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
        match runner.run(&row, &arm).outcome {
            Outcome::Pass => Ok(Completion::Completed),
            Outcome::Fail(why) if why.starts_with("missing: ") && !required => {
                Ok(Completion::ignored_with(why))
            }
            Outcome::Fail(why) => Err(Failed::from(format!("{}: {why}", row.behaviour))),
            other => Ok(Completion::ignored_with(format!("{}: {}", other.word(), other.why()))),
        }
    })
}

fn same_rows() -> Result<(), Failed> {
    let entries = table::entries().map_err(|f| Failed::from(Outcome::from(Err(f)).why().to_owned()))?;
    let mut listed: Vec<_> =
        entries.iter().filter(|row| row.awaits.is_none()).map(|row| row.id.clone()).collect();
    let mut tested: Vec<_> = protocol_tests::rows::all().iter().map(|row| row.id.to_uppercase()).collect();
    listed.sort();
    tested.sort();
    if listed == tested {
        return Ok(());
    }
    let missing: Vec<_> = listed.iter().filter(|id| !tested.contains(id)).collect();
    let extra: Vec<_> = tested.iter().filter(|id| !listed.contains(id)).collect();
    Err(format!("without a test: {missing:?}; not in the table or twice: {extra:?}").into())
}
