//! Agreement with the f32 reference, in every precision and with every kind of vectors
//! that this processor has.

use super::*;
use crate::conformance::backends::{
    Agreement, AgreementLimits, ClaimedPrompt, NamedModel, compare, models, prompts,
};

/// Prompts, dealt to the models evenly, and tokens of the longest: more than a call takes.
const PROMPTS: (usize, usize) = (2_000, 600);
/// Of each model, what is computed without vectors as well: fused operations are calls there.
const PORTABLE_PROMPTS: usize = 4;

/// What is found of one model, by precision and kind of vectors. To the bit it is the same for all
/// kinds that add in the same order.
fn found(model: &NamedModel, kinds: &[(Precision, Processor)], prompts: &[ClaimedPrompt]) -> Vec<Agreement> {
    let NamedModel { name, config, weights } = model;
    let load = |(precision, processor): &(Precision, Processor)| {
        CpuBackend::load_on(*processor, config, weights, *precision).unwrap()
    };
    let backends: Vec<_> = kinds.iter().map(load).collect();
    let found = compare(&model.reference().unwrap(), &backends, prompts).unwrap();
    for ((precision, processor), one) in kinds.iter().zip(&found) {
        let alike =
            |kind: &(Precision, Processor)| kind.0 == *precision && kind.1.adds_as(*processor, *precision);
        for (_, other) in kinds.iter().zip(&found).filter(|(kind, _)| alike(kind)) {
            assert_eq!(one, other, "{name}, {precision}, {}", processor.name());
        }
    }
    found
}

fn kinds(processors: &[Processor]) -> Vec<(Precision, Processor)> {
    let of = |precision| processors.iter().map(move |processor| (precision, *processor));
    Precision::ALL.into_iter().flat_map(of).collect()
}

#[test]
fn every_processor_agrees_with_the_reference_over_random_prompts() {
    let models = models().unwrap();
    let all = Processor::available();
    let fast = kinds(&all[..(all.len() - 1).max(1)]);
    let mut totals = vec![Agreement::default(); fast.len()];
    for (seed, model) in (1..).zip(&models) {
        let prompts = prompts(&model.config, PROMPTS.0 / models.len(), PROMPTS.1, seed);
        found(model, &kinds(&all), &prompts[..PORTABLE_PROMPTS]);
        let found = found(model, &fast, &prompts);
        for ((precision, processor), (found, total)) in fast.iter().zip(found.iter().zip(&mut totals)) {
            let what = format!("{}, {precision}, {}: {found}", model.name, processor.name());
            println!("{what}");
            assert!(!found.exceeds(AgreementLimits::of(*precision)), "{what}");
            assert!(found.max_dlogp() > 0.0, "compared with itself: {what}");
            total.add(found);
        }
    }
    for ((precision, processor), total) in fast.iter().zip(&totals) {
        println!("all models, {precision}, {}: {total}", processor.name());
        assert_eq!(total.prompts, PROMPTS.0 as u64);
    }
}
