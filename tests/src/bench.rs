//! Benches by turns, medians of several rounds: against outside systems, and against what bounds us.

mod ceilings;
mod crew;
pub mod echo_clip;
pub mod growth;
pub mod ingest;
pub mod install;
pub mod interrupt;
pub(crate) mod machine;
mod memory;
pub mod micro_batches;
pub mod rollout;
pub mod sandbox;
pub mod share;
pub mod step;
pub mod train;

/// The middle one of several figures; 0 of none.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
