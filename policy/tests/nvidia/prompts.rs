//! Agreement with the f32 reference over random prompts.

use std::sync::Arc;

use echo_policy::conformance::backends::{Agreement, AgreementLimits, compare, models, prompts};
use echo_policy::generation::CpuBackend;
use echo_policy::generation::cuda::CudaBackend;
use echo_policy::model::precision::Precision;

use crate::emulator::Program;
use crate::{Emulator, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("f32 agrees with the reference over random prompts", f32_agrees_with_the_reference),
    ("bf16 agrees with the reference over random prompts", bf16_agrees_with_the_reference),
];

/// Prompts, dealt to the models evenly, unless [`PROMPTS_VARIABLE`] says how many. The
/// emulator takes half a second of a core for each in each precision: all 2,000 are for one
/// who has half an hour.
const PROMPTS: usize = 50;
/// The environment variable for another number of prompts.
const PROMPTS_VARIABLE: &str = "ECHO_NVIDIA_PROMPTS";
/// Tokens of the longest: three pages. Longer ones are the other trials' affair.
const LONGEST: usize = 70;

fn wanted() -> usize {
    std::env::var(PROMPTS_VARIABLE).map_or(PROMPTS, |text| text.parse().expect("a number of prompts"))
}

/// What was found, against the f32 reference and against the CPU's kernels in the same precision.
fn totals(program: &Arc<Program>, precision: Precision) -> [Agreement; 2] {
    let device = Emulator::new(program).device();
    let models = models().unwrap();
    let mut totals = [Agreement::default(); 2];
    for (seed, model) in (1..).zip(&models) {
        let backend = [CudaBackend::load(&device, &model.config, &model.weights, precision).unwrap()];
        let cpu = CpuBackend::load_as(&model.config, &model.weights, precision).unwrap();
        let prompts = prompts(&model.config, wanted() / models.len(), LONGEST, seed);
        let found = [
            compare(&model.reference().unwrap(), &backend, &prompts).unwrap()[0],
            compare(&cpu, &backend, &prompts).unwrap()[0],
        ];
        println!("{}, {precision}: {}; against the CPU: {}", model.name, found[0], found[1]);
        assert!(!found[0].exceeds(AgreementLimits::of(precision)), "{}: {}", model.name, found[0]);
        assert!(found[0].max_dlogp() > 0.0, "compared with itself");
        totals.iter_mut().zip(&found).for_each(|(total, found)| total.add(found));
    }
    let [of_reference, of_cpu] = &totals;
    println!("CUDA in the emulator, {precision}: {of_reference}");
    println!("CUDA in the emulator against the CPU, {precision}: {of_cpu}");
    assert_eq!(of_reference.prompts as usize, wanted() / models.len() * models.len());
    totals
}

fn f32_agrees_with_the_reference(program: &Arc<Program>) {
    totals(program, Precision::F32);
}

fn bf16_agrees_with_the_reference(program: &Arc<Program>) {
    totals(program, Precision::Bf16);
}
