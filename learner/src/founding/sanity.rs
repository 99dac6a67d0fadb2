//! Settings that are allowed and probably not meant: rates, batches and lengths with which little is learned.

use crate::common::workload::{Workload, dtype};
use crate::config::RunConfig;
use crate::training::objective::Baseline;
use crate::training::trainer::grouping::GroupBy;
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::run::charter::DrawRule;
use echo_sandbox::task::{Task, TaskSeed};

/// Parameters that are looked at: their shares are then within a hundredth.
const SAMPLES: usize = 1 << 16;
/// Fewest responses of an update whose mean reward says something: its standard error is then a tenth.
const FEW_RESPONSES: usize = 24;
/// How many times the usual rate is too much, and which part of it too little, to go without a word.
const FAR: f64 = 30.0;
/// Solutions of a task that are looked at.
const SOLUTIONS: u8 = 64;

/// The peak rate with which policies of this size are usually trained by reinforcement with AdamW:
/// 3e-4 for toys, 1e-5 for a tenth of a billion, 1e-6 from a billion on.
#[must_use]
pub fn usual_rate(parameters: u64) -> f64 {
    match parameters {
        0..10_000_000 => 3e-4,
        10_000_000..60_000_000 => 5e-5,
        60_000_000..400_000_000 => 1e-5,
        400_000_000..1_000_000_000 => 2e-6,
        _ => 1e-6,
    }
}

/// What is odd about the learning rate for a policy of so many parameters.
pub(super) fn of_rate(config: &RunConfig, parameters: u64) -> Vec<String> {
    let (schedule, usual) = (&config.train.schedule, usual_rate(parameters));
    let mut found = Vec::new();
    let size = parameters as f64 / 1e6;
    if schedule.peak > usual * FAR {
        found.push(format!(
            "[train.schedule] peak = {:e} is high for {size:.1} million parameters, which are usually trained at about {usual:e}: the policy may \
             diverge",
            schedule.peak
        ));
    } else if schedule.peak < usual / FAR {
        found.push(format!(
            "[train.schedule] peak = {:e} is low for {size:.1} million parameters, which are usually trained at about {usual:e}: nothing may be \
             learned",
            schedule.peak
        ));
    }
    let steps = config.run.updates.saturating_mul(config.train.minibatches as u64);
    if schedule.warmup >= steps {
        found.push(format!(
            "[train.schedule] warmup = {}: the run makes {steps} steps, so the rate never reaches its peak",
            schedule.warmup
        ));
    }
    found
}

/// Says when most updates are too small to show in what is published.
pub(super) fn of_rounding(config: &RunConfig, weights: &Weights) -> Option<String> {
    let (published, peak) = (dtype(config.snapshot.dtype), config.train.schedule.peak);
    let mut halves = half_steps(weights, published);
    halves.sort_by(f64::total_cmp);
    let median = *halves.get(halves.len() / 2)?;
    let small = halves.iter().filter(|half| **half > peak).count() as f64 / halves.len() as f64;
    (small > 0.5).then(|| {
        let name = config.snapshot.dtype;
        let finer = match published {
            DType::BF16 => "; with dtype = \"f16\" steps are an eighth as large, and more bytes change",
            DType::F16 | DType::F32 => "",
        };
        format!(
            "[train.schedule] peak = {peak:e} is less than half a step of [snapshot] dtype = \"{}\" for {:.0} % of the weights: half a step is {median:.1e} \
             at the median weight, and AdamW moves a weight by about the rate in an update, so some {:.0} updates of one direction show there. The \
             learner adds them up in f32 and loses none; nodes see them late{finer}",
            format!("{name:?}").to_lowercase(),
            small * 100.0,
            (median / peak).ceil()
        )
    })
}

/// Half the distance to the next number of `published`, for parameters spread evenly over `weights`.
fn half_steps(weights: &Weights, published: DType) -> Vec<f64> {
    let stride = (weights.total_elements() / SAMPLES).max(1);
    let mut found = Vec::new();
    for tensor in weights.iter() {
        let values = tensor.bytes().chunks_exact(tensor.dtype().size()).step_by(stride);
        found.extend(values.map(|value| half_step(published, number(tensor.dtype(), value))));
    }
    found
}

/// A stored number.
fn number(stored: DType, bytes: &[u8]) -> f32 {
    match (stored, bytes) {
        (DType::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (DType::BF16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f32(),
        (DType::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32(),
        _ => 0.0,
    }
}

/// Half the distance from `value` to the next larger number of a type.
fn half_step(of: DType, value: f32) -> f64 {
    // Bits behind the leading one, and the exponent of the smallest normal number.
    let (bits, least) = match of {
        DType::BF16 => (7, -126),
        DType::F16 => (10, -14),
        DType::F32 => (23, -126),
    };
    let exponent = if value == 0.0 { least } else { (value.abs().log2().floor() as i32).max(least) };
    2.0_f64.powi(exponent - bits - 1)
}

/// What is odd about the size of batches.
pub(super) fn of_batch(config: &RunConfig, rows: Option<usize>) -> Vec<String> {
    let (group, groups) = (config.sampling.group_size as usize, config.train.groups_per_update);
    let responses = group.saturating_mul(groups);
    let mut found = Vec::new();
    let baseline = config.train.objective.objective.advantage.baseline;
    let compares = matches!(baseline, Baseline::GroupMean | Baseline::LeaveOneOut);
    if group == 1 && compares && config.train.group_by == GroupBy::Order {
        found.push(
            "[sampling] group_size = 1: no response has another one to be compared with, so every advantage is 0 and nothing is learned: set 4 or more"
                .to_owned(),
        );
    }
    if responses < FEW_RESPONSES {
        found.push(format!(
            "an update has {responses} responses ([sampling] group_size = {group}, [train] groups_per_update = {groups}): its gradient is mostly \
             noise below some {FEW_RESPONSES}"
        ));
    }
    if config.train.minibatches > groups {
        found.push(format!(
            "[train] minibatches = {}: a batch has {groups} groups, so some steps have none",
            config.train.minibatches
        ));
    }
    if let Some(rows) = rows.filter(|rows| *rows < groups) {
        found.push(format!(
            "[train] groups_per_update = {groups}: the files have {rows} rows, so each update asks some of them twice"
        ));
    }
    found
}

/// Says when nodes may compute in bf16 where tokens race: honest machines are so far apart there that a cheat
/// has much to choose from. It is a tenth of positions, as measured with 151,936 tokens.
pub(super) fn of_precisions(config: &RunConfig, workload: &Workload) -> Option<String> {
    let charter = &workload.charter;
    let is_bf16 = charter.precisions.iter().any(|precision| precision.as_str() == "bf16");
    (config.admission.audit && is_bf16 && charter.sampling.draw == DrawRule::Race).then(|| {
        "[admission] precisions has bf16: where honest machines round so differently, a careful cheat may choose its token in a tenth of all positions, \
         and no audit finds it. f32 leaves one in two hundred, int8 and int4 none"
            .to_owned()
    })
}

/// Says when tokens are drawn by a rule under which no such run is founded any more.
#[must_use]
pub fn of_rule(config: &RunConfig, workload: &Workload) -> Option<String> {
    let tokens = workload.model.vocab_size;
    let rules = (workload.charter.sampling.draw, config.sampling.charter(1, tokens).draw);
    (config.admission.audit && rules == (DrawRule::Intervals, DrawRule::Race)).then(|| {
        format!(
            "the run was founded when {tokens} tokens were drawn by intervals: its sampling audit misses lies; found a new run: \
             `echo-learner run --config FILE` with another [run] dir, and to begin with this policy, [model] path as `echo-learner export DIR --output` \
             wrote it"
        )
    })
}

/// What is odd about the length of responses: solutions that a task shows and that would be cut.
pub(super) fn of_length(config: &RunConfig, workload: &Workload) -> Vec<String> {
    let allowed = workload.charter.sampling.max_new_tokens as usize;
    let mut found = Vec::new();
    for task in workload.mix.tasks().filter(|task| task.knows_solutions()) {
        let lengths = solution_lengths(task, workload);
        // The token that ends the response counts.
        let cut = lengths.iter().filter(|length| **length + 1 > allowed).count();
        let longest = lengths.iter().max().copied().unwrap_or_default() + 1;
        if cut > 0 {
            found.push(format!(
                "[sampling] max_new_tokens = {allowed}: of {} solutions of task {} {cut} are longer, up to {longest} tokens: such responses are cut and \
                 earn nothing; set it higher",
                lengths.len(),
                task.name()
            ));
        }
    }
    if config.sampling.max_new_tokens.is_none() && config.model.path.is_some() {
        found.push(format!(
            "[sampling] max_new_tokens is left out: responses may have {allowed} tokens, as many as the longest solution has characters. A model that \
             thinks first needs more, and others need less: set it"
        ));
    }
    found
}

fn solution_lengths(task: &dyn Task, workload: &Workload) -> Vec<usize> {
    let solutions = (0..SOLUTIONS).map(|seed| task.solution(TaskSeed([seed; 32])));
    solutions.filter_map(|solution| workload.encode(&solution).ok()).map(|ids| ids.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::training::lr_schedule::Schedule;
    use crate::training::objective::Preset;
    use echo_protocol::snapshot::manifest::TensorType;

    fn config() -> RunConfig {
        let mut config = testing::run_config("run".into());
        config.run.updates = 100;
        config.train.schedule = Schedule::constant(3e-4, 10);
        config
    }

    #[test]
    fn rates_far_from_the_usual_are_named_with_it() {
        let mut config = config();
        assert_eq!(of_rate(&config, 600_000), [""; 0]);
        assert!(of_rate(&config, 600_000_000)[0].contains("may diverge"));
        config.train.schedule.peak = 1e-6;
        assert_eq!(of_rate(&config, 600_000_000), [""; 0]);
        let low = of_rate(&config, 600_000);
        assert!(low[0].contains("peak = 1e-6 is low for 0.6 million") && low[0].contains("3e-4"), "{low:?}");
        config.train.schedule = Schedule::constant(3e-4, 100);
        assert!(of_rate(&config, 600_000)[0].contains("never reaches"));
        config.train.minibatches = 2;
        assert_eq!(of_rate(&config, 600_000), [""; 0]);
        for sizes in [1_u64, 20_000_000, 135_000_000, 600_000_000, 8_000_000_000].windows(2) {
            assert!(usual_rate(sizes[0]) > usual_rate(sizes[1]));
        }
    }

    #[test]
    fn half_a_step_is_half_the_distance_to_the_next_number() {
        for value in [1.0_f32, -1.5, 0.02, 3e-5] {
            let bf16 = half::bf16::from_f32(value.abs());
            let next = half::bf16::from_bits(bf16.to_bits() + 1);
            assert_eq!(half_step(DType::BF16, bf16.to_f32()) * 2.0, f64::from(next.to_f32() - bf16.to_f32()));
            let f16 = half::f16::from_f32(value.abs());
            let next = half::f16::from_bits(f16.to_bits() + 1);
            assert_eq!(half_step(DType::F16, f16.to_f32()) * 2.0, f64::from(next.to_f32() - f16.to_f32()));
            let next = f32::from_bits(value.abs().to_bits() + 1);
            assert_eq!(half_step(DType::F32, value) * 2.0, f64::from(next - value.abs()));
        }
        assert!(half_step(DType::BF16, 0.0) < 1e-30);
    }

    #[test]
    fn updates_that_round_away_are_named_with_figures() {
        // Deviation 0.02: half a step of bf16 is 3e-5 to 6e-5 at most weights.
        let (_, weights) = testing::workload();
        let mut config = config();
        assert_eq!(of_rounding(&config, &weights), None);
        config.train.schedule.peak = 1e-6;
        let warned = of_rounding(&config, &weights).unwrap();
        assert!(
            warned.contains("peak = 1e-6") && warned.contains("dtype = \"bf16\"") && warned.contains("f16"),
            "{warned}"
        );
        config.snapshot.dtype = TensorType::F32;
        assert_eq!(of_rounding(&config, &weights), None);
    }

    #[test]
    fn batches_that_teach_little_are_named() {
        let mut config = config();
        assert_eq!(of_batch(&config, None), [""; 0]);
        assert_eq!(of_batch(&config, Some(16)), [""; 0]);
        assert!(of_batch(&config, Some(15))[0].contains("15 rows"));
        config.train.minibatches = 17;
        assert!(of_batch(&config, None)[0].contains("minibatches = 17"));
        config.train.minibatches = 1;
        config.sampling.group_size = 1;
        let alone = of_batch(&config, None);
        assert!(alone[0].contains("every advantage is 0") && alone[1].contains("16 responses"), "{alone:?}");
        config.train.objective = Preset::ReinforcePp.into();
        assert_eq!(of_batch(&config, None).len(), 1, "it compares with the batch");
    }

    #[test]
    fn responses_that_cannot_hold_a_solution_are_named() {
        let config = config();
        let (workload, _) = testing::workload();
        assert_eq!(of_length(&config, &workload), [""; 0]);
        let (mut workload, _) = testing::workload();
        workload.charter.sampling.max_new_tokens = 1;
        let cut = of_length(&config, &workload);
        assert!(
            cut[0].contains("max_new_tokens = 1: of 64 solutions of task chain_sum 64 are longer"),
            "{cut:?}"
        );
    }

    #[test]
    fn what_leaves_a_cheat_much_to_choose_from_is_named() {
        let mut config = config();
        let (mut workload, _) = testing::racing();
        workload.charter.precisions.push("int8".to_owned().try_into().unwrap());
        assert_eq!(of_precisions(&config, &workload), None);
        workload.charter.precisions.push("bf16".to_owned().try_into().unwrap());
        assert!(of_precisions(&config, &workload).unwrap().contains("bf16"));
        workload.charter.sampling.draw = DrawRule::Intervals;
        assert_eq!(of_precisions(&config, &workload), None);
        assert_eq!(of_rule(&config, &workload), None, "of few tokens");
        workload.model.vocab_size = 151_936;
        assert!(of_rule(&config, &workload).unwrap().contains("its sampling audit misses lies"));
        config.admission.audit = false;
        assert_eq!(of_rule(&config, &workload), None, "nothing is audited");
        config.admission.audit = true;
        workload.charter.sampling.draw = DrawRule::Race;
        assert_eq!(of_rule(&config, &workload), None);
    }
}
