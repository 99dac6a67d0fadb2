use super::*;
use crate::generation::CpuBackend;
use crate::generation::backend::MAX_CALL_TOKENS;
use crate::model::weights::{RawTensor, Weights};

#[test]
fn prompts_are_ragged_and_the_same_every_time() {
    let model = models().unwrap().remove(0);
    let found = prompts(&model.config, 400, 600, 1);
    let of = |keep: &dyn Fn(&ClaimedPrompt) -> bool| found.iter().filter(|prompt| keep(prompt)).count();
    assert!(of(&|prompt| prompt.inputs().len() == 1) > 10);
    let page = CpuBackend::load(&model.config, &model.weights).unwrap().cache_granule();
    assert!(of(&|prompt| prompt.inputs().len() > page) > 50);
    assert!(of(&|prompt| prompt.inputs().len() > MAX_CALL_TOKENS) > 2);
    assert!((150..250).contains(&of(&|prompt| prompt.singles() == 0)));
    assert!(of(&|prompt| prompt.singles() == prompt.inputs().len()) > 10, "nothing but single tokens");
    let sound = |prompt: &ClaimedPrompt| {
        (1..=600).contains(&prompt.inputs().len())
            && prompt.singles() <= prompt.inputs().len()
            && prompt.claims().iter().chain(prompt.inputs()).all(|token| *token < 1201)
    };
    assert_eq!(of(&sound), 400);
    assert_eq!(prompts(&model.config, 400, 600, 1), found);
    assert_ne!(prompts(&model.config, 400, 600, 2), found);
    assert!(prompts(&model.config, 50, 9_999, 1).iter().all(|prompt| prompt.inputs().len() <= 700));
}

#[test]
fn calls_are_full_and_every_token_is_fed_once() {
    let model = models().unwrap().remove(3);
    let backend = CpuBackend::load(&model.config, &model.weights).unwrap();
    let prompts = prompts(&model.config, 60, 600, 3);
    let tokens: usize = prompts.iter().map(|prompt| prompt.inputs().len()).sum();
    let mut rows = Vec::new();
    feeding::distributions(&backend, &prompts, |row, logits| {
        assert_eq!(logits.len(), 97);
        rows.push(row);
    })
    .unwrap();
    let mut claimed = Vec::new();
    feeding::claims(&backend, &prompts, |row, _| claimed.push(row)).unwrap();
    assert_ne!(rows, claimed, "the ends are fed one by one");
    for mut rows in [rows, claimed] {
        rows.sort_unstable();
        assert_eq!(rows, (0..tokens).collect::<Vec<_>>());
    }
}

/// The same weights but for one number.
fn with(weights: &Weights, model: &NamedModel, name: &str, place: usize, value: f32) -> Weights {
    let raw = weights.iter().map(|tensor| {
        let mut values = tensor.to_f32();
        if tensor.name() == name {
            values[place] = value;
        }
        RawTensor::from_f32(tensor.name(), tensor.shape(), &values, tensor.dtype())
    });
    Weights::from_raw(&model.config, raw).unwrap()
}

#[test]
fn one_wrong_number_is_noticed() {
    let model = models().unwrap().remove(4);
    let prompts = prompts(&model.config, 30, 40, 5);
    let reference = model.reference().unwrap();
    let name = "model.layers.1.self_attn.k_norm.weight";
    let backends = [1.0, 1.1].map(|by| {
        let was = model.weights.get(name).unwrap().to_f32()[3];
        CpuBackend::load(&model.config, &with(&model.weights, &model, name, 3, by * was)).unwrap()
    });
    let [right, wrong] = compare(&reference, &backends, &prompts).unwrap().try_into().unwrap();
    let tokens: usize = prompts.iter().map(|prompt| prompt.inputs().len()).sum();
    assert_eq!((right.prompts, right.tokens), (30, tokens as u64));
    let limits = AgreementLimits::of(Precision::F32);
    assert!(!right.exceeds(limits), "{right}");
    assert!(wrong.exceeds(limits) && wrong.max_kl() > 10.0 * right.max_kl(), "{wrong}");
    let mut both = right;
    both.add(&wrong);
    assert_eq!((both.prompts, both.max_dlogp()), (60, wrong.max_dlogp()));
    assert!((both.mean_kl() - (right.mean_kl() + wrong.mean_kl()) / 2.0).abs() < 1e-12);
    // Nothing compared, and nothing that is a number, agree with nothing.
    assert!(Agreement::default().exceeds(limits));
    let mut broken = right;
    broken.saw_logprob(-1.0, f64::NAN);
    assert!(broken.exceeds(limits) && broken.max_dlogp().is_nan());
}
