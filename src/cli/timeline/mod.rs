//! `timeline`: where the time of a job's checkpoints went.

mod breakdown;
mod chart;
mod svg;

#[cfg(test)]
mod samples;

use std::path::PathBuf;

use anyhow::Context as _;

use super::{Context, Exit};
use crate::checkpoint::timeline::read_timeline;
use breakdown::Breakdown;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Directory of a job's state, running or not
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Also draw a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let dir = args.state.display();
    anyhow::ensure!(args.state.is_dir(), "{dir}: there is no state here");
    let times = read_timeline(&args.state).with_context(|| dir.to_string())?;
    let breakdown = Breakdown::of(&times);
    anyhow::ensure!(
        breakdown.checkpoints > 0,
        "{dir}: no complete checkpoint has a timeline; `pipe` and `mirror` write it while they run with --state"
    );
    if let Some(file) = &args.svg {
        std::fs::write(file, svg::draw(&breakdown)).with_context(|| file.display().to_string())?;
    }
    if context.json() {
        context.print(breakdown.json().to_string())?;
    } else {
        context.print(chart::draw(&breakdown))?;
    }
    Ok(Exit::Done)
}
