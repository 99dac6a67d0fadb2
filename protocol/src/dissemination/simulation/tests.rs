use super::*;

/// Seeds that are run when `ECHO_SIMULATE_SEEDS` does not say otherwise.
const SEEDS: u64 = 200;

#[test]
fn networks_with_faults_and_liars_keep_the_rules_and_complete() {
    let seeds = std::env::var("ECHO_SIMULATE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        let report = run(seed);
        assert_eq!(report.broken, None, "seed {seed}");
    }
}

#[test]
fn a_seed_replays_bit_for_bit() {
    let reports: Vec<SimulationReport> = (0..20).map(run).collect();
    assert_eq!(reports, (0..20).map(run).collect::<Vec<_>>());
    assert!(reports.windows(2).all(|pair| pair[0].trace != pair[1].trace));
}
