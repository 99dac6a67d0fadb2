//! Hand-worked losses, gradients against finite differences, and inputs that must not produce NaN.

use candle_core::{DType, Device, Tensor, Var};

use super::*;

/// Values from a fixed linear congruential sequence in [low, high).
fn spread(count: usize, seed: u64, low: f64, high: f64) -> Vec<f64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            low + (high - low) * ((state >> 11) as f64 / (1u64 << 53) as f64)
        })
        .collect()
}

struct Case {
    logp: Vec<f64>,
    behaviour: Vec<f64>,
    proximal: Vec<f64>,
    mask: Vec<u8>,
    advantages: Vec<f64>,
    groups: Vec<usize>,
}

impl Case {
    /// Six responses of up to five tokens in two interleaved groups.
    fn ragged() -> Self {
        let mask = [5, 2, 4, 1, 3, 5].iter().flat_map(|&n| (0..5).map(move |t| u8::from(t < n))).collect();
        let behaviour = spread(30, 1, -2.5, -0.2);
        let near = |seed, width: f64| {
            behaviour.iter().zip(spread(30, seed, -width, width)).map(|(b, d)| b + d).collect::<Vec<_>>()
        };
        let (logp, proximal) = (near(2, 0.6), near(3, 0.3));
        let groups = vec![0, 9, 0, 9, 0, 9];
        let advantages =
            AdvantageRule::GroupMean.advantages(&[1.0, 0.0, 0.0, 1.0, 0.5, 0.0], &groups).unwrap();
        Self { logp, behaviour, proximal, mask, advantages, groups }
    }

    fn input(&self, dtype: DType) -> (Var, ObjectiveInput) {
        let shape = (self.groups.len(), self.mask.len() / self.groups.len());
        let tensor =
            |v: &[f64]| Tensor::from_vec(v.to_vec(), shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        let logp = Var::from_tensor(&tensor(&self.logp)).unwrap();
        let input = ObjectiveInput {
            logp: logp.as_tensor().clone(),
            behaviour_logp: tensor(&self.behaviour),
            proximal_logp: Some(tensor(&self.proximal)),
            mask: Tensor::from_vec(self.mask.clone(), shape, &Device::Cpu).unwrap(),
            advantages: Tensor::new(self.advantages.as_slice(), &Device::Cpu).unwrap(),
            groups: self.groups.clone(),
            entropy: None,
        };
        (logp, input)
    }

    fn run(&self, objective: &dyn Objective, dtype: DType) -> (f64, Vec<f64>, ObjectiveStats) {
        let (logp, input) = self.input(dtype);
        let ObjectiveOutput { loss, stats } = objective.loss(&input).unwrap();
        let grads = loss.backward().unwrap();
        let grad = checked::host(grads.get(&logp).unwrap()).unwrap();
        (checked::host(&loss).unwrap()[0], grad, stats)
    }
}

fn objectives() -> Vec<Box<dyn Objective>> {
    let clip = Clip { low: 0.2, high: 0.28 };
    vec![
        Box::new(Gepo { clip: None, cppo_kl_beta: 0.0 }),
        Box::new(Gepo { clip: Some(clip), cppo_kl_beta: 0.3 }),
        Box::new(DecoupledPpo { clip, behaviour_weight_cap: None }),
        Box::new(DecoupledPpo { clip, behaviour_weight_cap: Some(1.1) }),
    ]
}

#[test]
fn gradients_agree_with_finite_differences() {
    for objective in objectives() {
        let case = Case::ragged();
        let (_, grad, _) = case.run(objective.as_ref(), DType::F64);
        for (at, analytic) in grad.iter().enumerate() {
            let shifted = |delta: f64| {
                let mut moved = Case::ragged();
                moved.logp[at] += delta;
                moved.run(objective.as_ref(), DType::F64).0
            };
            let numeric = (shifted(1e-6) - shifted(-1e-6)) / 2e-6;
            assert!((analytic - numeric).abs() < 1e-8, "{} at {at}: {analytic} {numeric}", objective.name());
        }
        assert!(grad.iter().any(|g| g.abs() > 1e-3), "{} has no gradient", objective.name());
    }
}

#[test]
fn f32_agrees_with_f64() {
    for objective in objectives() {
        let (loss, grad, _) = Case::ragged().run(objective.as_ref(), DType::F64);
        let (loss32, grad32, _) = Case::ragged().run(objective.as_ref(), DType::F32);
        assert!((loss - loss32).abs() < 1e-6);
        assert!(grad.iter().zip(&grad32).all(|(a, b)| (a - b).abs() < 1e-6));
    }
}

#[test]
fn equal_inputs_give_equal_bits() {
    for objective in objectives() {
        for dtype in [DType::F32, DType::F64] {
            let (loss, grad, stats) = Case::ragged().run(objective.as_ref(), dtype);
            let (again, grad_again, stats_again) = Case::ragged().run(objective.as_ref(), dtype);
            assert_eq!(loss.to_bits(), again.to_bits());
            let bits = |g: &[f64]| g.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&grad), bits(&grad_again));
            assert_eq!(stats, stats_again);
        }
    }
}

#[test]
fn gepo_by_hand_with_clip_and_two_groups() {
    // Group 0: q = .5, .25 so E = .3125/.75 = 5/12; group 1: q = .2, .2 so E = .2.
    // Weights: .5/(5/12) = 1.2, .1/(5/12) = .24, .3/.2 = 1.5, .1/.2 = .5.
    let case = Case {
        logp: [0.5f64, 0.1, 0.3, 0.1].map(f64::ln).to_vec(),
        behaviour: [0.5f64, 0.25, 0.2, 0.2].map(f64::ln).to_vec(),
        proximal: vec![0.0; 4],
        mask: vec![1; 4],
        advantages: vec![1.0, -1.0, 2.0, -2.0],
        groups: vec![0, 0, 1, 1],
    };
    let gepo = Gepo { clip: Some(Clip { low: 0.2, high: 0.28 }), cppo_kl_beta: 0.0 };
    let (loss, grad, stats) = case.run(&gepo, DType::F64);
    // min terms: 1.2; -.8 (clipped); 1.28 · 2 (clipped); -.8 · 2 (clipped).
    assert!((loss + (1.2 - 0.8 + 2.56 - 1.6) / 4.0).abs() < 1e-12);
    assert!((grad[0] + 1.2 / 4.0).abs() < 1e-12);
    assert_eq!(grad[1..], [0.0; 3]);
    assert_eq!(stats.clip_share(), 0.75);
    assert!((stats.weight_mean() - 0.86).abs() < 1e-12);
    assert!((stats.weight_max() - 1.5).abs() < 1e-12);
    assert!((stats.ess() - 3.44 * 3.44 / (4.0 * (1.44 + 0.0576 + 2.25 + 0.25))).abs() < 1e-12);
}

#[test]
fn decoupled_ppo_by_hand_with_cap() {
    // Ratios current/proximal 1.5 (clipped to 1.2), .9, behaviour weights 3 (capped to 2) and .5; the third token
    // is masked out.
    let case = Case {
        logp: vec![1.5f64.ln() - 1.0, 0.9f64.ln() - 1.0, 7.0],
        proximal: vec![-1.0, -1.0, f64::NAN],
        behaviour: vec![-1.0 - 3f64.ln(), -1.0 - 0.5f64.ln(), f64::INFINITY],
        mask: vec![1, 1, 0],
        advantages: vec![1.0],
        groups: vec![0],
    };
    let ppo = DecoupledPpo { clip: Clip::default(), behaviour_weight_cap: Some(2.0) };
    let (loss, grad, stats) = case.run(&ppo, DType::F64);
    assert!((loss + (1.2 * 2.0 + 0.9 * 0.5) / 2.0).abs() < 1e-12);
    assert!((grad[1] + 0.45 / 2.0).abs() < 1e-12);
    assert_eq!((grad[0], grad[2]), (0.0, 0.0));
    assert_eq!((stats.clip_share(), stats.tokens()), (0.5, 2));
    assert!((stats.weight_max() - 3.0).abs() < 1e-12);
}

#[test]
fn on_policy_the_clip_passes_the_whole_gradient() {
    let mut case = Case::ragged();
    case.proximal = case.logp.clone();
    case.behaviour = case.logp.clone();
    let ppo = DecoupledPpo { clip: Clip::default(), behaviour_weight_cap: None };
    let (_, grad, stats) = case.run(&ppo, DType::F32);
    for (at, g) in grad.iter().enumerate() {
        let expected = -case.advantages[at / 5] * f64::from(case.mask[at]) / 20.0;
        assert!((g - expected).abs() < 1e-7);
    }
    assert_eq!((stats.clip_share(), stats.ess(), stats.kl_k1(), stats.kl_k3()), (0.0, 1.0, 0.0, 0.0));
}

#[test]
fn extreme_log_ratios_stay_finite() {
    for sign in [1e4, -1e4] {
        let mut case = Case::ragged();
        case.logp.iter_mut().for_each(|l| *l += sign);
        case.proximal.iter_mut().for_each(|l| *l -= sign);
        for objective in objectives() {
            for dtype in [DType::F32, DType::F64] {
                let (loss, grad, stats) = case.run(objective.as_ref(), dtype);
                assert!(loss.is_finite() && grad.iter().all(|g| g.is_finite()));
                assert!(
                    stats.weight_max().is_finite() && stats.ess().is_finite() && stats.kl_k3().is_finite()
                );
            }
        }
    }
    // Behaviour probabilities that underflow: the expectation is taken in log space, so the weight is still p/E.
    let mut case = Case::ragged();
    case.behaviour.iter_mut().for_each(|l| *l -= 1e4);
    case.logp = case.behaviour.clone();
    let (_, grad, stats) = case.run(&Gepo { clip: None, cppo_kl_beta: 0.0 }, DType::F64);
    assert!(stats.weight_max() > 0.5 && stats.weight_max() < 2.0 && grad.iter().any(|g| *g != 0.0));
}

#[test]
fn nothing_to_train_on_is_a_zero_loss_with_a_zero_gradient() {
    let mut case = Case::ragged();
    case.mask.fill(0);
    for objective in objectives() {
        let (loss, grad, stats) = case.run(objective.as_ref(), DType::F32);
        assert_eq!((loss, stats.tokens(), stats.ess()), (0.0, 0, 0.0));
        assert!(grad.iter().all(|&g| g == 0.0));
    }
}

#[test]
fn an_empty_response_changes_nobody_elses_expectation() {
    let full = Case::ragged();
    let mut emptied = Case::ragged();
    emptied.mask[15..20].fill(0);
    let gepo = Gepo { clip: None, cppo_kl_beta: 0.0 };
    let (_, grad, _) = emptied.run(&gepo, DType::F64);
    assert!(grad[15..20].iter().all(|&g| g == 0.0));
    // Group 0 (rows 0, 2, 4) does not hear of it.
    let (_, untouched, _) = full.run(&gepo, DType::F64);
    assert_eq!(grad[0..5], untouched[0..5]);
}

#[test]
fn equal_rewards_and_groups_of_one_have_no_gradient() {
    let mut case = Case::ragged();
    case.groups = vec![0, 1, 2, 3, 3, 3];
    case.advantages =
        AdvantageRule::GroupMean.advantages(&[1.0, 0.0, 1.0, 0.3, 0.3, 0.3], &case.groups).unwrap();
    for objective in [&Gepo::default() as &dyn Objective, &DecoupledPpo::default()] {
        let (loss, grad, _) = case.run(objective, DType::F32);
        assert!(loss == 0.0 && grad.iter().all(|&g| g == 0.0));
    }
}

#[test]
fn masked_values_reach_neither_loss_nor_gradient() {
    for objective in objectives() {
        let (loss, grad, _) = Case::ragged().run(objective.as_ref(), DType::F32);
        let mut dirty = Case::ragged();
        for at in 0..30 {
            if dirty.mask[at] == 0 {
                (dirty.logp[at], dirty.behaviour[at], dirty.proximal[at]) =
                    (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
            }
        }
        let (dirty_loss, dirty_grad, _) = dirty.run(objective.as_ref(), DType::F32);
        assert_eq!(loss.to_bits(), dirty_loss.to_bits());
        assert_eq!(grad, dirty_grad);
    }
}

#[test]
fn refuses_non_finite_values_that_count_and_missing_or_misshapen_input() {
    let mut case = Case::ragged();
    case.behaviour[6] = f64::NEG_INFINITY;
    let (_, input) = case.input(DType::F32);
    assert!(matches!(
        Gepo::default().loss(&input),
        Err(ObjectiveError::NonFinite { what: "behaviour_logp", row: 1 })
    ));
    let (_, mut input) = Case::ragged().input(DType::F32);
    input.proximal_logp = None;
    assert!(matches!(DecoupledPpo::default().loss(&input), Err(ObjectiveError::MissingProximal { .. })));
    input.groups.pop();
    assert!(matches!(Gepo::default().loss(&input), Err(ObjectiveError::Shape { what: "groups", .. })));
}

#[test]
fn stats_of_parts_merge_to_those_of_the_whole() {
    let (_, mut input) = Case::ragged().input(DType::F64);
    input.entropy = Some(input.behaviour_logp.neg().unwrap());
    let whole = Gepo::default().loss(&input).unwrap().stats;
    let of_group = |group: usize| {
        let rows: Vec<u32> = (0..6u32).filter(|&i| input.groups[i as usize] == group).collect();
        let index = Tensor::new(rows.as_slice(), &Device::Cpu).unwrap();
        let pick = |t: &Tensor| t.index_select(&index, 0).unwrap();
        let part = ObjectiveInput {
            logp: pick(&input.logp),
            behaviour_logp: pick(&input.behaviour_logp),
            proximal_logp: None,
            mask: pick(&input.mask),
            advantages: pick(&input.advantages),
            groups: vec![group; rows.len()],
            entropy: input.entropy.as_ref().map(pick),
        };
        Gepo::default().loss(&part).unwrap().stats
    };
    let mut merged = ObjectiveStats::default();
    merged.merge(&of_group(0));
    merged.merge(&of_group(9));
    assert_eq!(merged.tokens(), whole.tokens());
    assert_eq!(merged.weight_max(), whole.weight_max());
    assert_eq!(merged.clip_share(), whole.clip_share());
    for (a, b) in [
        (merged.ess(), whole.ess()),
        (merged.kl_k3(), whole.kl_k3()),
        (merged.weight_variance(), whole.weight_variance()),
        (merged.entropy().unwrap(), whole.entropy().unwrap()),
    ] {
        assert!((a - b).abs() < 1e-12);
    }
}
