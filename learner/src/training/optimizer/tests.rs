//! Against a scalar AdamW in f64, and what a run relies on: skipping, exact checkpoints, equal bits.

use candle_core::{DType, Tensor};

use super::*;
use crate::training::lr_schedule::Decay;

const CONFIG: AdamWConfig = AdamWConfig {
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weight_decay: 0.1,
    max_gradient_norm: 0.5,
    guard: Guard { max_norm: None, max_norm_ratio: None },
};

/// A matrix that decays, a norm and a bias that do not, with fixed values.
fn parameters() -> Vec<(String, Var)> {
    let var = |values: &[f32], shape: &[usize]| {
        Var::from_tensor(&Tensor::from_slice(values, shape, &Device::Cpu).unwrap()).unwrap()
    };
    vec![
        ("layer.weight".into(), var(&[0.5, -0.25, 1.5, 0.0, -2.0, 0.75], &[2, 3])),
        ("layer.norm.weight".into(), var(&[1.0, 0.9], &[2])),
        ("layer.bias".into(), var(&[0.1], &[1])),
    ]
}

fn schedule() -> Schedule {
    Schedule { peak: 0.02, warmup: 2, decay: Decay::Cosine { updates: 12, floor: 0.1 } }
}

fn build(fused: bool) -> AdamW {
    AdamW::with_fused_on(parameters(), CONFIG, schedule(), |_| fused).unwrap()
}

/// Gradient of element `at` in update `update`: some updates are clipped, some are not.
fn gradient_at(at: usize, update: usize) -> f32 {
    ((at * 7 + update * 3) % 11) as f32 * 0.04 - 0.2 * (update % 3) as f32
}

fn gradients(optimizer: &AdamW, of: impl Fn(usize) -> f32) -> Vec<Gradient> {
    let mut at = 0;
    let of_parameter = |(_, var): (&str, &Var)| {
        at += var.elem_count();
        Gradient::Host((at - var.elem_count()..at).map(&of).collect())
    };
    optimizer.parameters().map(of_parameter).collect()
}

fn train(optimizer: &mut AdamW, updates: std::ops::Range<usize>) -> Vec<StepReport> {
    updates
        .map(|update| {
            let gradients = gradients(optimizer, |at| gradient_at(at, update));
            optimizer.step(&gradients).unwrap()
        })
        .collect()
}

fn weights(optimizer: &AdamW) -> Vec<f32> {
    optimizer.parameters().flat_map(|(_, var)| var.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// The equations of the module's head, one scalar at a time.
fn reference(updates: usize) -> (Vec<f64>, Vec<f64>) {
    let mut p: Vec<f64> = [0.5, -0.25, 1.5, 0.0, -2.0, 0.75, 1.0, 0.9f32 as f64, 0.1f32 as f64].to_vec();
    let (mut m, mut v, mut norms) = (vec![0.0; 9], vec![0.0; 9], Vec::new());
    for update in 0..updates {
        let g: Vec<f64> = (0..9).map(|at| f64::from(gradient_at(at, update))).collect();
        let norm = g.iter().map(|g| g * g).sum::<f64>().sqrt();
        norms.push(norm);
        let scale = (CONFIG.max_gradient_norm / norm).min(1.0);
        let rate = schedule().learning_rate(update as u64);
        let t = update as i32 + 1;
        for at in 0..9 {
            let g = g[at] * scale;
            m[at] = CONFIG.beta1 * m[at] + (1.0 - CONFIG.beta1) * g;
            v[at] = CONFIG.beta2 * v[at] + (1.0 - CONFIG.beta2) * g * g;
            if at < 6 {
                p[at] -= rate * CONFIG.weight_decay * p[at];
            }
            let m_hat = m[at] / (1.0 - CONFIG.beta1.powi(t));
            let v_hat: f64 = v[at] / (1.0 - CONFIG.beta2.powi(t));
            p[at] -= rate * m_hat / (v_hat.sqrt() + CONFIG.epsilon);
        }
    }
    (p, norms)
}

#[test]
fn agrees_with_the_scalar_reference_in_f64() {
    let (wanted, norms) = reference(20);
    assert!(norms.iter().any(|&n| n > CONFIG.max_gradient_norm));
    assert!(norms.iter().any(|&n| n < CONFIG.max_gradient_norm));
    for fused in [true, false] {
        let mut optimizer = build(fused);
        let reports = train(&mut optimizer, 0..20);
        for (report, norm) in reports.iter().zip(&norms) {
            assert!((report.gradient_norm - norm).abs() < 1e-6);
            assert_eq!(report.clip_scale < 1.0, *norm > CONFIG.max_gradient_norm);
        }
        for (found, wanted) in weights(&optimizer).iter().zip(&wanted) {
            assert!((f64::from(*found) - wanted).abs() < 1e-6, "fused {fused}: {found} {wanted}");
        }
    }
}

#[test]
fn first_update_by_hand() {
    // The first step moves by exactly the rate against the gradient's sign (ε aside), whatever its size.
    let var = Var::new(&[[1.0f32, 2.0]], &Device::Cpu).unwrap();
    let config = AdamWConfig { weight_decay: 0.5, ..AdamWConfig::default() };
    let mut optimizer =
        AdamW::new(vec![("w".into(), var.clone())], config, Schedule::constant(0.1, 0)).unwrap();
    let gradients = gradients(&optimizer, |at| if at == 0 { 30.0 } else { -40.0 });
    let report = optimizer.step(&gradients).unwrap();
    assert_eq!((report.gradient_norm, report.clip_scale, report.updates), (50.0, 0.02, 1));
    let found = var.to_vec2::<f32>().unwrap();
    assert!((found[0][0] - (1.0 * 0.95 - 0.1)).abs() < 1e-6);
    assert!((found[0][1] - (2.0 * 0.95 + 0.1)).abs() < 1e-6);
}

#[test]
fn a_gradient_that_is_not_finite_changes_nothing() {
    for fused in [true, false] {
        for poison in [f32::NAN, f32::INFINITY, 1e30] {
            let mut optimizer = build(fused);
            train(&mut optimizer, 0..3);
            let before = (bits(&weights(&optimizer)), optimizer.updates());
            let poisoned = gradients(&optimizer, |at| if at == 4 { poison } else { 0.1 });
            let report = optimizer.step(&poisoned).unwrap();
            assert_eq!(report.outcome, StepOutcome::Skipped(SkipCause::Gradient));
            assert_eq!((bits(&weights(&optimizer)), optimizer.updates()), before);
            // The poison does not linger in the moments.
            train(&mut optimizer, 3..6);
            let mut undisturbed = build(fused);
            train(&mut undisturbed, 0..6);
            assert_eq!(bits(&weights(&optimizer)), bits(&weights(&undisturbed)));
        }
    }
}

#[test]
fn a_resumed_run_is_bit_identical() {
    for fused in [true, false] {
        let mut straight = build(fused);
        train(&mut straight, 0..9);

        let mut first = build(fused);
        train(&mut first, 0..4);
        let state = first.state().unwrap();
        let mut second = build(fused);
        for ((_, to), (_, from)) in second.parameters().zip(first.parameters()) {
            to.set(from).unwrap();
        }
        second.load_state(&state).unwrap();
        train(&mut second, 4..9);
        assert_eq!(bits(&weights(&straight)), bits(&weights(&second)));
        assert_eq!(second.updates(), 9);
    }
}

#[test]
fn twice_the_same_run_gives_the_same_bits() {
    let run = || {
        let mut optimizer = build(true);
        let reports = train(&mut optimizer, 0..10);
        (bits(&weights(&optimizer)), reports.last().unwrap().gradient_norm.to_bits())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut optimizer = build(true);
    train(&mut optimizer, 0..3);
    let good = optimizer.state().unwrap();
    let matrix = |value: f32| Tensor::full(value, (2, 3), &Device::Cpu).unwrap();
    let replaced = |name: &str, tensor: Option<Tensor>| {
        let mut state = good.clone();
        state.remove(name);
        state.extend(tensor.map(|t| (name.to_owned(), t)));
        state
    };
    let bad = [
        replaced("optimizer.step", None),
        replaced("optimizer.step", Some(Tensor::new(&[-1i64], &Device::Cpu).unwrap())),
        replaced("optimizer.m.layer.weight", None),
        replaced("optimizer.m.layer.weight", Some(matrix(f32::NAN))),
        replaced("optimizer.v.layer.weight", Some(matrix(-1.0))),
        replaced("optimizer.v.layer.weight", Some(Tensor::zeros(6, DType::F32, &Device::Cpu).unwrap())),
        replaced("optimizer.v.other", Some(matrix(0.0))),
    ];
    for state in bad {
        assert!(matches!(optimizer.load_state(&state), Err(OptimizerError::State { .. })));
    }
    train(&mut optimizer, 3..5);
    let mut undisturbed = build(true);
    train(&mut undisturbed, 0..5);
    assert_eq!(bits(&weights(&optimizer)), bits(&weights(&undisturbed)));
}

#[test]
fn gradients_of_another_model_are_refused_and_change_nothing() {
    let mut optimizer = build(true);
    let before = bits(&weights(&optimizer));
    let mut short = gradients(&optimizer, |_| 0.1);
    short.pop();
    assert!(matches!(optimizer.step(&short), Err(OptimizerError::Gradients { found: 2, expected: 3 })));
    short.push(Gradient::Host(vec![0.1; 7]));
    let error = optimizer.step(&short).unwrap_err();
    assert!(error.to_string().contains("layer.bias"), "{error}");
    assert_eq!((bits(&weights(&optimizer)), optimizer.updates()), (before, 0));
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let var = Var::zeros((300, 1000), DType::F32, &Device::Cpu).unwrap();
        let parameters = vec![("w".to_owned(), var)];
        let mut optimizer = AdamW::new(parameters, CONFIG, Schedule::constant(0.1, 0)).unwrap();
        let gradients = gradients(&optimizer, |at| (at as f32 * 0.37).sin());
        let report = pool.install(|| optimizer.step(&gradients).unwrap());
        (report.gradient_norm.to_bits(), bits(&weights(&optimizer)))
    };
    assert!(run(1) == run(3));
}

#[test]
fn refuses_settings_and_parameters_it_cannot_use() {
    let new = |parameters, config| AdamW::new(parameters, config, Schedule::constant(0.1, 0));
    assert!(matches!(new(vec![], CONFIG), Err(OptimizerError::NoParameters)));
    let twice = [parameters(), parameters()].concat();
    assert!(matches!(new(twice, CONFIG), Err(OptimizerError::DuplicateName { .. })));
    let double = Var::zeros((2, 2), DType::F64, &Device::Cpu).unwrap();
    assert!(matches!(new(vec![("w".into(), double)], CONFIG), Err(OptimizerError::NotMaster { .. })));
    let config = AdamWConfig { beta2: 1.0, ..CONFIG };
    assert!(matches!(new(parameters(), config), Err(OptimizerError::Setting { setting: "beta2", .. })));
}

#[test]
fn decay_spares_norms_biases_and_vectors() {
    assert!(decays("model.embed_tokens.weight", 2) && decays("model.layers.0.mlp.up_proj.weight", 2));
    assert!(!decays("model.layers.0.self_attn.q_proj.bias", 1) && !decays("model.norm.weight", 1));
    assert!(!decays("model.layers.0.self_attn.q_norm.weight", 1));
}

#[test]
fn a_norm_far_above_the_others_is_skipped_also_after_a_resume() {
    let guard = Guard { max_norm: None, max_norm_ratio: Some(20.0) };
    let guarded =
        || AdamW::new(parameters(), AdamWConfig { guard, ..CONFIG }, Schedule::constant(0.1, 0)).unwrap();
    let mut optimizer = guarded();
    train(&mut optimizer, 0..10);
    let mut resumed = guarded();
    resumed.load_state(&optimizer.state().unwrap()).unwrap();
    for optimizer in [&mut optimizer, &mut resumed] {
        let before = (bits(&weights(optimizer)), optimizer.updates());
        let spike = gradients(optimizer, |_| 100.0);
        let report = optimizer.step(&spike).unwrap();
        assert_eq!(report.outcome, StepOutcome::Skipped(SkipCause::Exploding));
        assert_eq!(report.gradient_norm, 300.0);
        assert_eq!((bits(&weights(optimizer)), optimizer.updates()), before);
    }
    assert!(
        !build(true).state().unwrap().contains_key(NORMS_NAME),
        "nothing is kept that nobody compares with"
    );
    let mut state = optimizer.state().unwrap();
    state.insert(NORMS_NAME.to_owned(), Tensor::new(&[f64::NAN], &Device::Cpu).unwrap());
    assert!(matches!(optimizer.load_state(&state), Err(OptimizerError::State { .. })));
}
