//! Agreement with the f32 reference over random prompts.

use echo_policy::conformance::backends::{Agreement, AgreementLimits, compare, models, prompts};
use echo_policy::generation::wgpu::WgpuBackend;
use echo_policy::model::precision::Precision;

use crate::{Opener, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("random prompts agree with the reference", random_prompts_agree_with_the_reference)];

/// Prompts, dealt to the models evenly, and tokens of the longest: three pages. A processor that
/// plays a GPU is slow: other trials go beyond a call's tokens.
const PROMPTS: (usize, usize) = (2_000, 70);

fn random_prompts_agree_with_the_reference(opener: &Opener) {
    let gpu = opener.open();
    let models = models().unwrap();
    let mut total = Agreement::default();
    for (seed, model) in (1..).zip(&models) {
        let backend = WgpuBackend::load(&gpu, &model.config, &model.weights).unwrap();
        let prompts = prompts(&model.config, PROMPTS.0 / models.len(), PROMPTS.1, seed);
        let found = compare(&model.reference().unwrap(), &[backend], &prompts).unwrap();
        assert!(!found[0].exceeds(AgreementLimits::of(Precision::F32)), "{}: {}", model.name, found[0]);
        assert!(found[0].max_dlogp() > 0.0, "compared with itself");
        total.add(&found[0]);
    }
    let kind = if opener.without_subgroups { "workgroup memory" } else { "subgroups" };
    println!("wgpu ({kind}), f32: {total}");
    assert_eq!(total.prompts, PROMPTS.0 as u64);
}
