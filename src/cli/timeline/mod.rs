//! `timeline`: where the time of a job's checkpoints went.

mod breakdown;
mod chart;
mod svg;

#[cfg(test)]
mod samples;

use std::path::PathBuf;

use anyhow::Context as _;

use super::{Context, Exit, state::StatePlace};
use breakdown::Breakdown;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// State of a job, running or not: its directory, or its URL
    #[arg(long, value_name = "DIR|URL", value_parser = StatePlace::parser())]
    state: StatePlace,
    /// Also draw a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let times = args.state.look().await?.timeline().await?;
    let breakdown = Breakdown::of(&times);
    anyhow::ensure!(
        breakdown.checkpoints > 0,
        "{}: no complete checkpoint has a timeline; `pipe` and `mirror` write it while they run with --state",
        args.state
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
