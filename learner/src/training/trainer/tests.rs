use super::*;
use crate::common::testing;
use crate::publishing::checkpoint::{Checkpoints, state_at};
use crate::training::local_rollouts::{LocalAnswer, answers};
use crate::training::lr_schedule::Schedule;
use crate::training::objective::Preset;
use candle_core::Tensor;
use echo_policy::generation::{Generation, Policy};
use echo_policy::model::weights::DType as Stored;
use echo_policy::training::decoder::{Compute, Gradient};
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup, spans};
use std::sync::Arc;

fn section() -> TrainSection {
    TrainSection { schedule: Schedule::constant(1e-3, 0), ..TrainSection::default() }
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Groups as an honest node makes them, with rewards that differ within each group.
fn groups(workload: &Workload, weights: &Weights, counters: std::ops::Range<u64>) -> Vec<StoredGroup> {
    let policy = Arc::new(Policy::load(0, &workload.model, weights).unwrap());
    let group_size = workload.charter.group_size;
    let made = counters.enumerate().map(|(arrival, counter)| {
        let order = workload.order(Purpose::Train, counter);
        let request = workload.request(&order, group_size).unwrap();
        let completions = Generation::start(policy.clone(), vec![request]).unwrap().run().unwrap().remove(0);
        let trajectories = completions.into_iter().enumerate().map(|(i, c)| Trajectory {
            versions: spans(c.versions.iter().map(|v| PolicyVersion(*v))),
            response: c.tokens,
            turns: Vec::new(),
            logprobs: c.logprobs,
            reward: (i % 2) as f32,
            stopped: c.stopped,
            omega: Default::default(),
            raw_logprobs: Vec::new(),
        });
        let group = TrajectoryGroup {
            run: workload.run,
            lease: LeaseId(0),
            counter: OrderCounter(counter),
            node: workload.charter.learner,
            trajectories: trajectories.collect(),
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        StoredGroup { arrival: arrival as u64, correct: vec![false; group.trajectories.len()], group }
    });
    made.collect()
}

#[test]
fn an_update_on_policy_starts_with_weights_of_one() {
    let (workload, weights) = testing::workload();
    let mut trainer = Trainer::new(&workload.model, &weights, &section()).unwrap();
    let report = trainer.update(&workload, &groups(&workload, &weights, 0..3)).unwrap();
    // The engine's log-probs and the trainer's are the same numbers, up to rounding.
    assert!(report.stats.kl_k3().abs() < 1e-6, "{:?}", report.stats);
    assert!(
        report.gaps.reported.unwrap().p95 < 1e-4 && report.gaps.recomputed.is_none(),
        "{:?}",
        report.gaps
    );
    assert_eq!(report.effort.trained.targets, report.stats.tokens());
    assert_eq!((report.effort.scored.tokens, report.effort.proximal_s), (0, 0.0));
    assert!(report.step.gradient_norm > 0.0);
}

#[test]
fn turns_are_scored_where_they_were_said_and_what_was_heard_is_not_trained_on() {
    let (workload, weights) = testing::two_turns();
    let policy = Policy::load(0, &workload.model, &weights).unwrap();
    let order = workload.order(Purpose::Train, 0);
    let (prompt, heard) = (workload.prompt(&order).unwrap(), workload.encode("higher:").unwrap());
    // No number is as small as 0.
    let turn = [workload.encode("0").unwrap(), vec![workload.end()]].concat();
    let conversation = [prompt.clone(), turn.clone(), heard.clone(), turn.clone()].concat();
    let scored =
        echo_policy::generation::score(&policy, std::slice::from_ref(&conversation)).unwrap().remove(0);
    let second = prompt.len() + 2 + heard.len();
    let own = [prompt.len(), prompt.len() + 1, second, second + 1];
    let trajectory = |i: u32| Trajectory {
        response: [turn.clone(), turn.clone()].concat(),
        turns: vec![2, 2],
        logprobs: own.iter().map(|&at| scored[at - 1]).collect(),
        versions: spans([PolicyVersion(0); 4]),
        reward: (i % 2) as f32,
        stopped: true,
        omega: Default::default(),
        raw_logprobs: Vec::new(),
    };
    let group = TrajectoryGroup {
        run: workload.run,
        lease: LeaseId(0),
        counter: OrderCounter(0),
        node: workload.charter.learner,
        trajectories: (0..4).map(trajectory).collect(),
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    assert_eq!(steps(&workload, &group.trajectories[0]), [2, 4], "a turn ends a step");
    let mut batch = vec![StoredGroup { arrival: 0, correct: vec![false; 4], group }];
    let sequence = sequences(&workload, &batch).unwrap().remove(0);
    assert_eq!(
        (sequence.rows(), &sequence.heard),
        (conversation.len() - 1, &vec![Heard { after: 2, tokens: heard }])
    );

    let mut trainer = Trainer::new(&workload.model, &weights, &section()).unwrap();
    let report = trainer.update(&workload, &batch).unwrap();
    assert!(report.gaps.reported.unwrap().p95 < 1e-4, "{:?}", report.gaps);
    assert_eq!((report.effort.trained.targets, report.stats.tokens()), (16, 16));
    assert_eq!(report.effort.trained.tokens, 4 * (conversation.len() as u64 - 1));

    // What could not have been admitted is not trained on in another way.
    batch[0].group.trajectories[3].turns = vec![1, 3];
    assert!(matches!(trainer.update(&workload, &batch), Err(TrainError::Sequence(_))));
}

#[test]
fn engine_and_trainer_agree_about_episodes_of_holdem() {
    let (workload, weights) = testing::holdem();
    let policy = Arc::new(Policy::load(0, &workload.model, &weights).unwrap());
    let orders: Vec<_> = (0..8).map(|counter| workload.order(Purpose::Train, counter)).collect();
    let answers = answers(&workload, policy, &orders, workload.charter.group_size).unwrap();
    let stored = |(counter, answers): (u64, Vec<LocalAnswer>)| StoredGroup {
        arrival: counter,
        correct: vec![false; answers.len()],
        group: TrajectoryGroup {
            run: workload.run,
            lease: LeaseId(0),
            counter: OrderCounter(counter),
            node: workload.charter.learner,
            trajectories: answers.into_iter().map(LocalAnswer::trajectory).collect(),
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        },
    };
    let batch: Vec<_> = (0..).zip(answers).map(stored).collect();
    let trajectories = || batch.iter().flat_map(|stored| &stored.group.trajectories);
    // What a random policy says is no action, which checks or folds, and the hand goes on.
    assert!(trajectories().filter(|t| t.turns.len() > 1).count() > 2);
    let said: usize = trajectories().map(|t| t.response.len()).sum();
    for group_by in [GroupBy::Order, GroupBy::PrivateHand, GroupBy::Batch] {
        let train = TrainSection { group_by, ..section() };
        let mut trainer = Trainer::new(&workload.model, &weights, &train).unwrap();
        let report = trainer.update(&workload, &batch).unwrap();
        assert!(report.gaps.reported.unwrap().p95 < 1e-4, "{:?}", report.gaps);
        assert_eq!(report.stats.tokens(), said as u64);
        assert!(report.loss.unwrap().is_finite());
    }
}

#[test]
fn examples_are_episodes_played_well() {
    let (workload, _) = testing::workload();
    let order = workload.order(Purpose::WarmUp, 3);
    let one = example(&workload, 3).unwrap();
    let mut solution = workload.encode(&workload.assignment(&order).solution()).unwrap();
    solution.push(workload.end());
    assert_eq!((one.prompt, one.response), (workload.prompt(&order).unwrap(), solution));
    assert!(one.heard.is_empty());

    let (workload, _) = testing::two_turns();
    let examples: Vec<_> = (0..20).map(|counter| example(&workload, counter).unwrap()).collect();
    assert!(examples.iter().any(|example| example.heard.is_empty()), "found at once");
    for example in examples.iter().filter(|example| !example.heard.is_empty()) {
        let [heard] = &example.heard[..] else { panic!("{example:?}") };
        assert_eq!(example.response[heard.after - 1], workload.end());
        let hint = workload.tokenizer.decode(&heard.tokens, false).unwrap();
        assert!(["higher:", "lower:"].contains(&hint.as_str()), "{hint}");
    }
    assert!(examples.iter().any(|example| !example.heard.is_empty()));
}

#[test]
fn responses_that_were_drawn_at_a_temperature_are_scored_at_it() {
    let (mut workload, weights) = testing::workload();
    workload.charter.sampling.temperature = 0.6;
    let groups = groups(&workload, &weights, 0..3);
    let gap = |temperature: f32| {
        let trainer = Trainer::new(&workload.model, &weights, &section()).unwrap();
        let report = trainer.at_temperature(temperature).unwrap().update(&workload, &groups).unwrap();
        report.gaps.reported.unwrap().p95
    };
    assert!(gap(0.6) < 1e-4, "{}", gap(0.6));
    assert!(gap(1.0) > 1e-2, "{}", gap(1.0));
}

#[test]
fn reinforcement_raises_what_was_rewarded() {
    let (workload, weights) = testing::workload();
    let batch = groups(&workload, &weights, 0..4);
    let mut trainer = Trainer::new(&workload.model, &weights, &section()).unwrap();
    let gain = |trainer: &Trainer| {
        let policy =
            Policy::load(1, &workload.model, &trainer.decoder().to_weights(Stored::F32).unwrap()).unwrap();
        let mut gain = 0.0;
        for stored in &batch {
            let prompt = workload.prompt(&workload.order(Purpose::Train, stored.group.counter.0)).unwrap();
            for t in &stored.group.trajectories {
                let sequence = [prompt.clone(), t.response.clone()].concat();
                let scored = echo_policy::generation::score(&policy, &[sequence]).unwrap().remove(0);
                let response: f32 = scored[scored.len() - t.response.len()..].iter().sum();
                gain += (t.reward - 0.5) * response;
            }
        }
        gain
    };
    let before = gain(&trainer);
    for _ in 0..3 {
        trainer.update(&workload, &batch).unwrap();
    }
    assert!(gain(&trainer) > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_trainer_goes_on_bit_for_bit() {
    let (workload, weights) = testing::workload();
    let batches: Vec<_> = (0..4).map(|i| groups(&workload, &weights, 4 * i..4 * i + 3)).collect();
    let mut whole = Trainer::new(&workload.model, &weights, &section()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::in_directory(dir.path(), 3).unwrap();
    for (at, batch) in batches.iter().enumerate() {
        if at == 2 {
            let state = state_at(workload.run, 2);
            let optimizer = whole.optimizer().state().unwrap();
            checkpoints.write(state, whole.decoder(), &optimizer).await.unwrap();
        }
        whole.update(&workload, batch).unwrap();
    }
    let (found, damaged) = checkpoints.newest(&workload.run, &Device::Cpu).await.unwrap();
    assert!(damaged.is_empty());
    let found = found.unwrap();
    let mut resumed = Trainer::resume(&workload.model, &found.weights, &found.optimizer, &section()).unwrap();
    for batch in &batches[2..] {
        resumed.update(&workload, batch).unwrap();
    }
    for ((name, a), (_, b)) in whole.decoder().vars().iter().zip(resumed.decoder().vars()) {
        assert!(bits(a.as_tensor()) == bits(b.as_tensor()), "{name} differs after the resume");
    }
}

/// Parameters whose bits differ.
fn differing(one: &Decoder, other: &Decoder) -> usize {
    let pairs = one.vars().iter().zip(other.vars());
    let of_pair = |((_, a), (_, b)): (&(String, Var), &(String, Var))| {
        bits(a.as_tensor()).iter().zip(bits(b.as_tensor())).filter(|(a, b)| **a != *b).count()
    };
    pairs.map(of_pair).sum()
}

#[test]
fn what_is_trained_is_what_nodes_sample_from() {
    let (workload, weights) = testing::workload();
    // So small a rate that most steps are less than half the way to the next number of bf16.
    let train = TrainSection { schedule: Schedule::constant(1e-6, 0), ..TrainSection::default() };
    let mut trainer =
        Trainer::new(&workload.model, &weights, &train).unwrap().publishing(Stored::BF16).unwrap();
    let start = trainer.master_weights().copy_to_host().unwrap();
    for counter in 0..3 {
        let published = trainer.master_weights().to_weights(Stored::BF16).unwrap();
        let report =
            trainer.update(&workload, &groups(&workload, &published, 3 * counter..3 * counter + 3)).unwrap();
        // At lag 0 the log-probs of nodes and trainer are the same, up to the kernels' rounding.
        assert!(report.gaps.reported.unwrap().mean < 1e-5, "{:?}", report.gaps);
        let published = trainer.master_weights().to_weights(Stored::BF16).unwrap();
        let nodes = Decoder::trainable(&workload.model, &published, &Device::Cpu).unwrap();
        assert_eq!(differing(&nodes, trainer.decoder()), 0, "the policy is the published one");
    }
    // What rounding takes from nodes is not lost: the optimizer's weights moved.
    let rounded = weights.to_dtype(Stored::BF16);
    let rounded = Decoder::trainable(&workload.model, &rounded, &Device::Cpu).unwrap();
    let moved = differing(&start, trainer.master_weights());
    assert!(moved > 10 * differing(&rounded, trainer.decoder()), "{moved} parameters moved");
}

#[test]
fn a_trainer_goes_on_from_the_weights_before_they_were_rounded() {
    let (workload, weights) = testing::workload();
    let published = |trainer: Trainer| trainer.publishing(Stored::BF16).unwrap();
    let mut whole = published(Trainer::new(&workload.model, &weights, &section()).unwrap());
    let batch = groups(&workload, &weights, 0..3);
    whole.update(&workload, &batch).unwrap();
    let of = |decoder: &Decoder| -> BTreeMap<String, Tensor> {
        decoder.vars().iter().map(|(name, var)| (name.clone(), var.as_tensor().copy().unwrap())).collect()
    };
    let (masters, state) = (of(whole.master_weights()), whole.optimizer().state().unwrap());
    let mut resumed = published(Trainer::resume(&workload.model, &masters, &state, &section()).unwrap());
    for trainer in [&mut whole, &mut resumed] {
        trainer.update(&workload, &batch).unwrap();
    }
    assert_eq!(differing(whole.master_weights(), resumed.master_weights()), 0);
    assert_eq!(differing(whole.decoder(), resumed.decoder()), 0);
}

#[test]
fn micro_batches_add_up_to_the_batch() {
    let (workload, weights) = testing::workload();
    let mut batch = groups(&workload, &weights, 0..6);
    // The policy has moved since, and there are successes.
    for trajectory in batch.iter_mut().flat_map(|stored| &mut stored.group.trajectories) {
        trajectory
            .logprobs
            .iter_mut()
            .enumerate()
            .for_each(|(i, logp)| *logp -= 0.1 * (i as f32 * 1.3).sin());
    }
    batch.iter_mut().for_each(|stored| stored.correct[1] = true);
    let plain = Preset::ALL.map(|preset| (preset.name(), format!("name = '{}'", preset.name())));
    let extended = Preset::ALL.map(|preset| {
        let parts = "kl = { estimator = 'k3', beta = 0.1, anchor = 'reference', cap = 10 }\necho_clip = { lambda = 0.01 }";
        (preset.name(), format!("name = '{}'\n{parts}", preset.name()))
    });
    for (name, objective) in plain.into_iter().chain(extended) {
        let update = |tokens| {
            let objective = toml::from_str(&objective).unwrap();
            let train = TrainSection { objective, micro_batch_tokens: tokens, ..section() };
            let trainer = Trainer::new(&workload.model, &weights, &train).unwrap();
            let mut trainer = trainer.with_reference(&testing::workload().1).unwrap();
            let report = trainer.update(&workload, &batch).unwrap();
            (report.loss.unwrap(), on_host(&trainer))
        };
        let (loss, whole) = update(1 << 14);
        let length =
            |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let size = length(&mut whole.iter().copied());
        assert!(size > 0.0, "{name}");
        for tokens in [100, 1] {
            let (split_loss, split) = update(tokens);
            assert!((loss - split_loss).abs() < 1e-5, "{name}: {loss} {split_loss}");
            let apart = length(&mut whole.iter().zip(&split).map(|(a, b)| a - b));
            assert!(apart < 1e-5 * size, "{name}: {apart} of {size}");
        }
    }
}

/// The gradients of an update of `objective` on `batch` in packs of `tokens`, and what it says of them.
fn gradients_of(objective: &str, batch: &[StoredGroup], tokens: usize) -> (Vec<f32>, UpdateReport) {
    let (workload, weights) = testing::workload();
    let objective = toml::from_str(&format!("name = '{objective}'")).unwrap();
    let train = TrainSection { objective, micro_batch_tokens: tokens, ..section() };
    let mut trainer = Trainer::new(&workload.model, &weights, &train).unwrap();
    let report = trainer.update(&workload, batch).unwrap();
    (on_host(&trainer), report)
}

fn on_host(trainer: &Trainer) -> Vec<f32> {
    let host = |buffer: &Gradient| match buffer {
        Gradient::Host(values) => values.clone(),
        Gradient::Device(_) => unreachable!("trained on the CPU"),
    };
    trainer.gradients.buffers().iter().flat_map(host).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn one_false_log_probability_weighs_no_more_than_a_bounded_one_however_false_it_is() {
    let (workload, weights) = testing::workload();
    let honest = groups(&workload, &weights, 0..3);
    // The first token of a response that earned nothing: no clip holds its weight where it
    // is made less likely.
    let lowered_by = |nats: f32| {
        let mut batch = honest.clone();
        batch[1].group.trajectories[0].logprobs[0] -= nats;
        batch
    };
    for objective in ["grpo", "dr_grpo", "dapo", "bnpo"] {
        let (untouched, report) = gradients_of(objective, &honest, 1 << 14);
        assert!(report.bounded.is_empty());
        let moved = |nats| distance(&gradients_of(objective, &lowered_by(nats), 1 << 14).0, &untouched);
        let (one, lie) = (moved(1.0), moved(19.9));
        // (e^5 - 1) / (e - 1) = 85.8; unbounded it were 2.6e8.
        assert!(one > 0.0 && lie > 80.0 * one && lie < 90.0 * one, "{objective}: {one} {lie}");
    }
    // The weight of what was sampled by another policy is bounded from both sides.
    let lie = lowered_by(19.9);
    for objective in
        ["grpo", "dr_grpo", "gspo", "cispo", "gmpo", "sapo", "decoupled_ppo", "ppo_truncated_is", "rloo"]
    {
        let (whole, report) = gradients_of(objective, &lie, 1 << 14);
        let node = lie[1].group.node;
        assert_eq!(report.bounded, [(node, 1)].into(), "{objective}");
        assert!(report.stats.weight_max() < 149.0, "{objective}");
        let (absurd, _) = gradients_of(objective, &lowered_by(1e30), 1 << 14);
        let same = whole.iter().zip(&absurd).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{objective}: a greater lie weighs as much");
        for tokens in [100, 1] {
            let (split, report) = gradients_of(objective, &lie, tokens);
            assert_eq!(report.bounded, [(node, 1)].into(), "{objective} in packs of {tokens}");
            let size = distance(&whole, &vec![0.0; whole.len()]);
            assert!(distance(&whole, &split) < 1e-4 * size, "{objective} in packs of {tokens}");
        }
    }
}

#[test]
fn where_nothing_is_bounded_an_update_is_the_objectives_own_bit_for_bit() {
    let (workload, weights) = testing::workload();
    let mut batch = groups(&workload, &weights, 0..4);
    // As far off as honest tokens may be.
    let tokens =
        batch.iter_mut().flat_map(|stored| &mut stored.group.trajectories).flat_map(|t| &mut t.logprobs);
    tokens.enumerate().for_each(|(i, logp)| *logp -= 4.5 * (i as f32 * 1.3).sin());
    for preset in Preset::ALL {
        let (bounded, report) = gradients_of(preset.name(), &batch, 100);
        assert!(report.bounded.is_empty(), "{}", preset.name());
        let train = TrainSection { objective: preset.into(), micro_batch_tokens: 100, ..section() };
        let mut trainer = Trainer::new(&workload.model, &weights, &train).unwrap();
        let sequences = sequences(&workload, &batch).unwrap();
        let known = trainer.known(&workload, &batch).unwrap();
        let limit = workload.charter.sampling.max_new_tokens as usize;
        let plan = trainer.objective.plan(known, limit).unwrap();
        trainer.gradients.zero().unwrap();
        for part in &micro_batches(&sequences, 100, 1, false).unwrap() {
            let by_hand = trainer.pass(&sequences, part, |scores| {
                let rows = part.iter().zip(scores);
                let scored: Vec<ScoredResponse<'_>> = rows
                    .map(|(&response, row)| ScoredResponse {
                        response,
                        logp: &row.logp,
                        entropy: &row.entropy,
                    })
                    .collect();
                let evaluation = plan.evaluate(&scored)?;
                Ok((evaluation.d_logp, evaluation.d_entropy))
            });
            by_hand.unwrap();
        }
        let same = on_host(&trainer).iter().zip(&bounded).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{}", preset.name());
    }
}

#[test]
fn a_precision_of_weight_0_teaches_nothing_and_is_told_apart() {
    let (workload, weights) = testing::workload();
    let mut batch = groups(&workload, &weights, 0..2);
    batch[1].group.precision = PrecisionName::try_from("int8".to_owned()).unwrap();
    let mut other = batch.clone();
    other[1].group.trajectories.iter_mut().for_each(|t| t.reward = 1.0 - t.reward);
    let gradient = |int8: f64, batch: &[StoredGroup]| {
        let precision_weight = PrecisionWeights { int8, ..PrecisionWeights::default() };
        let train = TrainSection { precision_weight, ..section() };
        let mut trainer = Trainer::new(&workload.model, &weights, &train).unwrap();
        let report = trainer.update(&workload, batch).unwrap();
        let reported: Vec<String> = report.gaps.by_precision.into_keys().collect();
        assert_eq!(reported, ["f32", "int8"]);
        on_host(&trainer)
    };
    let none = gradient(0.0, &batch);
    assert!(distance(&none, &vec![0.0; none.len()]) > 0.0, "the other group still teaches");
    assert_eq!(distance(&none, &gradient(0.0, &other)), 0.0);
    assert!(distance(&gradient(1.0, &batch), &gradient(1.0, &other)) > 0.0);
}

#[test]
fn a_policy_whose_numbers_overflow_skips_the_update_and_says_so() {
    let (workload, weights) = testing::workload();
    let batch = groups(&workload, &weights, 0..2);
    let mut trainer = Trainer::new(&workload.model, &weights, &section()).unwrap();
    assert!(trainer.is_finite().unwrap());
    assert_eq!(trainer.update(&workload, &[]).unwrap().all_skipped(), Some(SkipCause::Empty));
    let (_, norm) = trainer.decoder().vars().iter().find(|(name, _)| name == "model.norm.weight").unwrap();
    norm.set(&(norm.as_tensor() * f64::NAN).unwrap()).unwrap();
    assert!(!trainer.is_finite().unwrap());
    let report = trainer.update(&workload, &batch).unwrap();
    assert_eq!((report.skipped, report.step.outcome), (1, StepOutcome::Skipped(SkipCause::Logp)));
    assert_eq!(report.all_skipped(), Some(SkipCause::Logp));
    assert_eq!((report.loss, report.stats.tokens(), report.gaps), (None, 0, LogpGaps::default()));
    // The same where the policy is scored before the first of several steps.
    let train = TrainSection { objective: Preset::DecoupledPpo.into(), minibatches: 2, ..section() };
    let mut twice = Trainer::new(&workload.model, &weights, &train).unwrap();
    let (_, norm) = twice.decoder().vars().iter().find(|(name, _)| name == "model.norm.weight").unwrap();
    norm.set(&(norm.as_tensor() * f64::NAN).unwrap()).unwrap();
    let report = twice.update(&workload, &batch).unwrap();
    assert_eq!((report.steps, report.skipped, report.all_skipped()), (2, 2, Some(SkipCause::Logp)));
    assert_eq!(trainer.optimizer().updates(), 0);
    let examples = [example(&workload, 0).unwrap()];
    assert!(matches!(trainer.imitate(&examples), Err(TrainError::NotFinite)));
}

#[test]
fn a_minibatch_that_makes_no_step_is_no_part_of_the_loss() {
    let of = |loss: Option<f64>, outcome| {
        let step =
            StepReport { outcome, gradient_norm: 1.0, clip_scale: 1.0, learning_rate: 1e-3, updates: 1 };
        UpdateReport::of(loss, ObjectiveStats::default(), step)
    };
    let (skipped, made) = (StepOutcome::Skipped(SkipCause::Logp), StepOutcome::Applied);
    let mut report = of(None, skipped);
    assert_eq!((report.loss, report.all_skipped()), (None, Some(SkipCause::Logp)));
    for (loss, outcome) in [(Some(1.0), made), (None, skipped), (Some(2.0), made), (Some(6.0), made)] {
        report.add(of(loss, outcome));
    }
    assert_eq!((report.loss, report.steps, report.skipped), (Some(3.0), 5, 2));
}

/// On the CPU only because this is a test: a run file gets bf16 on GPUs alone.
#[test]
fn bf16_trains_as_f32_does_up_to_rounding() {
    let (workload, weights) = testing::workload();
    let examples: Vec<_> = (0..8).map(|counter| example(&workload, counter).unwrap()).collect();
    let losses = |compute| {
        let decoder = Decoder::trainable(&workload.model, &weights, &Device::Cpu).unwrap();
        let mut trainer = Trainer::over(decoder.with_compute(compute), &section()).unwrap();
        (0..6).map(|_| trainer.imitate(&examples).unwrap()).collect::<Vec<f64>>()
    };
    let (exact, rounded) = (losses(Compute::F32), losses(Compute::Bf16));
    assert!(rounded[5] < rounded[0] - 0.01, "{rounded:?}");
    for (exact, rounded) in exact.iter().zip(&rounded) {
        assert!((exact - rounded).abs() < 0.01 * exact, "{exact} {rounded}");
    }
}

#[test]
fn echo_clip_and_a_reference_go_through_an_update() {
    let (workload, weights) = testing::workload();
    let mut batch = groups(&workload, &weights, 0..3);
    batch.iter_mut().for_each(|stored| stored.correct[0] = true);
    let text = "kl = { estimator = 'k3', beta = 0.1, anchor = 'reference', cap = 10 }\necho_clip = { lambda = 0.01 }";
    let train = TrainSection { objective: toml::from_str(text).unwrap(), ..section() };
    let trainer = Trainer::new(&workload.model, &weights, &train).unwrap();
    let mut trainer = trainer.with_reference(&weights).unwrap();
    let first = trainer.update(&workload, &batch).unwrap();
    assert_eq!(first.stats.echo_clips().0, 3);
    assert!(first.stats.kl_reference().unwrap().abs() < 1e-9, "the policy is still its reference");
    let second = trainer.update(&workload, &batch).unwrap();
    assert!(second.stats.kl_reference().unwrap() > 1e-6, "{:?}", second.stats);
}

#[test]
fn what_needs_the_whole_batch_scores_it_first() {
    let (workload, weights) = testing::workload();
    let batch = groups(&workload, &weights, 0..3);
    let text = "name = 'decoupled_ppo'\n[correction.bound]\nkind = 'second_moment'\nthreshold = 0.04";
    let train = TrainSection { objective: toml::from_str(text).unwrap(), ..section() };
    let report = Trainer::new(&workload.model, &weights, &train).unwrap().update(&workload, &batch).unwrap();
    assert!(report.step.gradient_norm > 0.0 && report.loss.unwrap().is_finite());
    // Scored twice by the same policy in the same packs.
    assert_eq!(report.effort.scored, report.effort.trained);
    assert!(report.effort.proximal_s > 0.0);
    assert_eq!(report.gaps.recomputed, Some(Gap::default()));
}

#[test]
fn minibatches_step_one_after_the_other_around_the_policy_before_them() {
    let (workload, weights) = testing::workload();
    let batch = groups(&workload, &weights, 0..5);
    let objective = toml::from_str("name = 'decoupled_ppo'").unwrap();
    let trainer = |minibatches| {
        let train = TrainSection { objective, minibatches, ..section() };
        Trainer::new(&workload.model, &weights, &train).unwrap()
    };
    let mut trainer_of_three = trainer(3);
    let report = trainer_of_three.update(&workload, &batch).unwrap();
    assert_eq!((report.steps, trainer_of_three.optimizer().updates()), (3, 3));
    // The later minibatches meet a policy that the earlier ones have moved.
    let moved = report.gaps.recomputed.unwrap();
    assert!(moved.p95 > 1e-4 && moved.mean > 0.0, "{moved:?}");
    let mut whole = trainer(1);
    let together = whole.update(&workload, &batch).unwrap();
    assert_eq!((together.steps, together.stats.tokens()), (1, report.stats.tokens()));
    assert_eq!(deal(5, 3).collect::<Vec<_>>(), [0..1, 1..3, 3..5]);
    assert_eq!(deal(2, 8).collect::<Vec<_>>(), [0..1, 1..2], "no minibatch is empty");
}
