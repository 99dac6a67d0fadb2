//! Hand-worked losses, any split, and inputs that must not produce NaN. Finite differences, and
//! presets and corrections on two responses, have files of their own.

mod corrections;
mod gradients;
mod two;
mod values;

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

/// A batch, and what a policy says of it.
#[derive(Clone)]
struct Case {
    known: Vec<Known>,
    logp: Vec<Vec<f64>>,
    entropy: Vec<Vec<f64>>,
}

impl Case {
    /// Seven responses of up to five tokens, one of them empty, in two interleaved groups.
    fn ragged() -> Self {
        let groups = [0, 9, 0, 9, 0, 9, 0];
        let rewards = [1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0];
        let mut case = Self { known: Vec::new(), logp: Vec::new(), entropy: Vec::new() };
        for (row, length) in [5, 2, 4, 1, 3, 5, 0].into_iter().enumerate() {
            let seed = 10 * row as u64;
            let behaviour = spread(length, seed + 1, -2.5, -0.2);
            let near = |seed, width: f64| -> Vec<f64> {
                behaviour.iter().zip(spread(length, seed, -width, width)).map(|(b, d)| b + d).collect()
            };
            case.logp.push(near(seed + 2, 0.6));
            case.entropy.push(spread(length, seed + 5, 0.0, 2.0));
            case.known.push(Known {
                group: groups[row],
                proximal: Some(near(seed + 3, 0.3)),
                reference: Some(near(seed + 4, 0.5)),
                advantage: vec![rewards[row] - 0.4],
                succeeded: rewards[row] == 1.0,
                step_ends: step_ends((0..length).map(|t| t % 2 == 1)),
                behaviour,
                ..Known::default()
            });
        }
        case
    }

    /// One response of one token each, all in the groups given, for losses worked by hand.
    fn single(p: &[f64], q: &[f64], advantages: &[f64], groups: &[usize]) -> Self {
        let known = (0..p.len()).map(|row| Known {
            group: groups[row],
            behaviour: vec![q[row].ln()],
            advantage: vec![advantages[row]],
            ..Known::default()
        });
        let logp = p.iter().map(|p| vec![p.ln()]).collect();
        Self { known: known.collect(), logp, entropy: vec![vec![0.0]; p.len()] }
    }

    fn plan(&self, objective: &Objective) -> ObjectivePlan {
        objective.plan(self.known.clone(), 8).unwrap()
    }

    fn part(&self, plan: &ObjectivePlan, rows: &[usize]) -> Evaluation {
        let scored = |&response: &usize| ScoredResponse {
            response,
            logp: &self.logp[response],
            entropy: &self.entropy[response],
        };
        plan.evaluate(&rows.iter().map(scored).collect::<Vec<_>>()).unwrap()
    }

    fn run(&self, objective: &Objective) -> Evaluation {
        self.part(&self.plan(objective), &(0..self.known.len()).collect::<Vec<_>>())
    }
}

fn kl(estimator: Estimator, anchor: Anchor, cap: Option<f64>) -> Option<Kl> {
    Some(Kl { estimator, beta: 0.3, anchor, cap })
}

/// Every preset, and compositions that reach the parts that no preset has.
fn objectives() -> Vec<(String, Objective)> {
    let mut all: Vec<(String, Objective)> =
        Preset::ALL.into_iter().map(|preset| (preset.name().to_owned(), preset.objective())).collect();
    let (grpo, decoupled) = (Preset::Grpo.objective(), Preset::DecoupledPpo.objective());
    let corrected = |level, bound| Objective { correction: Some(Correction { level, bound }), ..decoupled };
    let extra = [
        (
            "dual clip",
            Objective { surrogate: Surrogate::PpoClip { low: 0.2, high: 0.2, dual: Some(1.3) }, ..grpo },
        ),
        ("k1", Objective { kl: kl(Estimator::K1, Anchor::Reference, None), ..grpo }),
        ("k2", Objective { kl: kl(Estimator::K2, Anchor::Behaviour, None), ..grpo }),
        ("k3", Objective { kl: kl(Estimator::K3, Anchor::Reference, Some(0.05)), ..grpo }),
        (
            "kl alone",
            Objective {
                surrogate: Surrogate::None {},
                kl: kl(Estimator::K3, Anchor::Behaviour, None),
                ..grpo
            },
        ),
        ("per group", Objective { aggregation: Aggregation::PerGroup {}, ..grpo }),
        ("entropy bonus", Objective { entropy_bonus: 0.1, ..decoupled }),
        ("echo clip", Objective { echo_clip: Some(EchoClip { lambda: 0.1 }), ..grpo }),
        ("clamp", corrected(Level::Sequence, WeightBound::Clamp { low: 0.5, high: 1.5 })),
        ("mask", corrected(Level::Mask, WeightBound::Mask { low: 0.9, high: 1.1 })),
        ("mean mask", corrected(Level::SequenceMean, WeightBound::Mask { low: 0.8, high: 1.2 })),
        ("second moment", corrected(Level::Token, WeightBound::SecondMoment { threshold: 0.01 })),
        (
            "geometric log-prob",
            Objective {
                ratio: Ratio::Geometric { against: Against::Behaviour, low: 0.1, high: 0.1 },
                surrogate: Surrogate::LogProb {},
                ..grpo
            },
        ),
        (
            "proximal sequence",
            Objective { ratio: Ratio::Sequence { against: Against::Proximal }, ..decoupled },
        ),
    ];
    all.extend(extra.map(|(name, objective)| (name.to_owned(), objective)));
    all
}

#[test]
fn any_split_has_the_loss_and_gradient_of_the_whole() {
    for (name, objective) in objectives() {
        let case = Case::ragged();
        let plan = case.plan(&objective);
        let whole = case.part(&plan, &[0, 1, 2, 3, 4, 5, 6]);
        let parts: &[&[usize]] = match objective.needs_whole_groups() {
            true => &[&[5, 3, 1], &[0, 2, 4, 6]],
            false => &[&[6], &[3, 0], &[1, 4, 5], &[2]],
        };
        let (mut loss, mut stats) = (0.0, ObjectiveStats::default());
        for rows in parts {
            let part = case.part(&plan, rows);
            loss += part.loss;
            stats.merge(&part.stats);
            for (at, &row) in rows.iter().enumerate() {
                assert_eq!(part.d_logp[at], whole.d_logp[row], "{name}");
                assert_eq!(part.d_entropy[at], whole.d_entropy[row], "{name}");
            }
        }
        assert!((loss - whole.loss).abs() < 1e-12, "{name}: {loss} {}", whole.loss);
        assert_eq!((stats.tokens(), stats.clip_share()), (20, whole.stats.clip_share()), "{name}");
        for (a, b) in [
            (stats.ess(), whole.stats.ess()),
            (stats.weight_variance(), whole.stats.weight_variance()),
            (stats.kl_k3(), whole.stats.kl_k3()),
            (stats.kl_reference().unwrap(), whole.stats.kl_reference().unwrap()),
            (stats.entropy().unwrap(), whole.stats.entropy().unwrap()),
        ] {
            assert!((a - b).abs() < 1e-12, "{name}");
        }
    }
}

#[test]
fn equal_inputs_give_equal_bits() {
    for (name, objective) in objectives() {
        assert_eq!(Case::ragged().run(&objective), Case::ragged().run(&objective), "{name}");
    }
}

#[test]
fn gepo_by_hand_with_clip_and_two_groups() {
    // Group 0: q = .5, .25 so E = .3125/.75 = 5/12; group 1: q = .2, .2 so E = .2.
    // Weights: .5/(5/12) = 1.2, .1/(5/12) = .24, .3/.2 = 1.5, .1/.2 = .5.
    let case =
        Case::single(&[0.5, 0.1, 0.3, 0.1], &[0.5, 0.25, 0.2, 0.2], &[1.0, -1.0, 2.0, -2.0], &[0, 0, 1, 1]);
    let surrogate = Surrogate::PpoClip { low: 0.2, high: 0.28, dual: None };
    let Evaluation { loss, d_logp, stats, .. } =
        case.run(&Objective { surrogate, ..Preset::Gepo.objective() });
    // min terms: 1.2; -.8 (clipped); 1.28 · 2 (clipped); -.8 · 2 (clipped).
    assert!((loss + (1.2 - 0.8 + 2.56 - 1.6) / 4.0).abs() < 1e-12);
    assert!((d_logp[0][0] + 1.2 / 4.0).abs() < 1e-12);
    assert_eq!(d_logp[1..].concat(), [0.0; 3]);
    assert_eq!((stats.clip_share_low(), stats.clip_share_high()), (0.5, 0.25));
    assert!((stats.weight_mean() - 0.86).abs() < 1e-12);
    assert!((stats.weight_max() - 1.5).abs() < 1e-12);
    assert!((stats.ess() - 3.44 * 3.44 / (4.0 * (1.44 + 0.0576 + 2.25 + 0.25))).abs() < 1e-12);
}

#[test]
fn the_defensive_denominator_by_hand() {
    // E = 5/12, Var(q) = (1/8)², ε = 1/16: w = p / (p/16 + 15/16 · 5/12).
    let case = Case::single(&[0.5, 0.1], &[0.5, 0.25], &[1.0, -1.0], &[0, 0]);
    let objective = Preset::GepoDefensive.objective();
    let w = |p: f64| p / (p / 16.0 + 15.0 / 16.0 * 5.0 / 12.0);
    let Evaluation { loss, d_logp, .. } = case.run(&objective);
    assert!((loss + (w(0.5) - w(0.1)) / 2.0).abs() < 1e-12);
    assert!((d_logp[0][0] + w(0.5) / 2.0).abs() < 1e-12);
    // ε = 1 is the policy gradient, ε = 0 is GEPO.
    let policy_gradient = case.run(&Objective { ratio: Ratio::GroupDefensive { scale: 1e9 }, ..objective });
    assert_eq!(policy_gradient.d_logp, [[-0.5], [0.5]]);
    let gepo = case.run(&Objective { ratio: Ratio::Group {}, ..objective });
    let without = case.run(&Objective { ratio: Ratio::GroupDefensive { scale: 0.0 }, ..objective });
    assert!((gepo.loss - without.loss).abs() < 1e-12);
}

#[test]
fn decoupled_ppo_by_hand_with_cap() {
    // Ratios current/proximal 1.5 (clipped to 1.2), .9; behaviour weights 3 (capped to 2) and .5.
    let known = Known {
        behaviour: vec![-1.0 - 3f64.ln(), -1.0 - 0.5f64.ln()],
        proximal: Some(vec![-1.0, -1.0]),
        advantage: vec![1.0],
        ..Known::default()
    };
    let logp = vec![1.5f64.ln() - 1.0, 0.9f64.ln() - 1.0];
    let case = Case { known: vec![known], logp: vec![logp], entropy: vec![vec![]] };
    let correction = Some(Correction { level: Level::Token, bound: WeightBound::Truncate { cap: 2.0 } });
    let Evaluation { loss, d_logp, stats, .. } =
        case.run(&Objective { correction, ..Preset::DecoupledPpo.objective() });
    assert!((loss + (1.2 * 2.0 + 0.9 * 0.5) / 2.0).abs() < 1e-12);
    assert_eq!(d_logp[0][0], 0.0);
    assert!((d_logp[0][1] + 0.45 / 2.0).abs() < 1e-12);
    assert_eq!((stats.clip_share(), stats.tokens()), (0.5, 2));
    assert!((stats.weight_max() - 3.0).abs() < 1e-12);
}

#[test]
fn a_policy_that_has_not_moved_is_its_own_proximal() {
    let mut case = Case::ragged();
    case.known.iter_mut().for_each(|known| known.proximal = None);
    let mut given = case.clone();
    given.known.iter_mut().zip(&case.logp).for_each(|(known, logp)| known.proximal = Some(logp.clone()));
    for preset in [Preset::DecoupledPpo, Preset::PpoTruncatedIs, Preset::Reinforce] {
        let (silent, given) = (case.run(&preset.objective()), given.run(&preset.objective()));
        assert_eq!((silent.loss, silent.d_logp), (given.loss, given.d_logp));
    }
}

#[test]
fn on_policy_the_clip_passes_the_whole_gradient() {
    let mut case = Case::ragged();
    for (known, logp) in case.known.iter_mut().zip(&case.logp) {
        (known.behaviour, known.proximal) = (logp.clone(), Some(logp.clone()));
    }
    let Evaluation { d_logp, stats, .. } = case.run(&Preset::DecoupledPpo.objective());
    for (known, row) in case.known.iter().zip(d_logp) {
        assert!(row.iter().all(|g| (g + known.advantage[0] / 20.0).abs() < 1e-12));
    }
    assert_eq!((stats.clip_share(), stats.ess(), stats.kl_k1(), stats.kl_k3()), (0.0, 1.0, 0.0, 0.0));
}

#[test]
fn cispo_and_reinforce_hold_their_weights_still() {
    // r = 2 is clipped to 1.28, and still has its gradient; log π alone has no weight at all.
    let case = Case::single(&[0.5], &[0.25], &[3.0], &[0]);
    let cispo = case.run(&Preset::Cispo.objective());
    assert!((cispo.d_logp[0][0] + 1.28 * 3.0).abs() < 1e-12);
    assert!((cispo.loss + 1.28 * 3.0 * 0.5f64.ln()).abs() < 1e-12);
    assert_eq!(case.run(&Preset::Gpg.objective()).d_logp, [[-3.0]]);
    // REINFORCE over the run's longest response (8 tokens here), weighted by π_prox / π_behaviour = 2.
    assert!((case.run(&Preset::Reinforce.objective()).d_logp[0][0] + 2.0 * 3.0 / 8.0).abs() < 1e-12);
}

#[test]
fn echo_clip_by_hand() {
    // Group 0: row 0 succeeded with steps of mean entropy .5 and .9, row 2 with .7: the clip is all of row 0.
    // Group 9: nobody succeeded.
    let mut case = Case::ragged();
    for (row, known) in case.known.iter_mut().enumerate() {
        known.succeeded = row == 0 || row == 2;
        (known.advantage, known.step_ends) = (vec![0.0], step_ends(vec![false; known.behaviour.len()]));
    }
    case.known[0].step_ends = vec![2, 5];
    case.entropy[0] = vec![0.5, 0.5, 0.9, 0.9, 0.9];
    case.entropy[2] = vec![0.7; 4];
    let objective = Objective { echo_clip: Some(EchoClip { lambda: 0.4 }), ..Preset::Grpo.objective() };
    let Evaluation { loss, d_logp, stats, .. } = case.run(&objective);
    // λ / (2 groups · 5 tokens), with no advantage to disturb it.
    assert!((loss + 0.04 * case.logp[0].iter().sum::<f64>()).abs() < 1e-12);
    assert_eq!(d_logp[0], [-0.04; 5]);
    assert!(d_logp[1..].iter().flatten().all(|d| *d == 0.0));
    assert_eq!(stats.echo_clips(), (1, 5.0));
    // The prefix ends with the step: the first one, once it is the harder one.
    case.entropy[0] = vec![2.0, 2.0, 0.9, 0.9, 0.9];
    assert_eq!(case.run(&objective).d_logp[0], [-0.1, -0.1, 0.0, 0.0, 0.0]);
}

#[test]
fn a_group_in_parts_is_refused_by_echo_clip() {
    let mut case = Case::ragged();
    case.known[2].succeeded = true;
    let objective = Objective { echo_clip: Some(EchoClip::default()), ..Preset::Grpo.objective() };
    let plan = case.plan(&objective);
    let scored = [ScoredResponse { response: 0, logp: &case.logp[0], entropy: &case.entropy[0] }];
    assert_eq!(plan.evaluate(&scored), Err(ObjectiveError::SplitGroup { group: 0 }));
}

#[test]
fn extreme_log_ratios_stay_finite() {
    for sign in [1e4, -1e4] {
        let mut case = Case::ragged();
        case.logp.iter_mut().flatten().for_each(|l| *l += sign);
        case.known.iter_mut().filter_map(|k| k.proximal.as_mut()).flatten().for_each(|l| *l -= sign);
        for (name, objective) in objectives() {
            let Evaluation { loss, d_logp, stats, .. } = case.run(&objective);
            assert!(loss.is_finite() && d_logp.iter().flatten().all(|g| g.is_finite()), "{name} {sign}");
            assert!(stats.weight_max().is_finite() && stats.ess().is_finite() && stats.kl_k3().is_finite());
        }
    }
    // Behaviour probabilities that underflow: the expectation is taken in log space, so the
    // weight is still p/E.
    let mut case = Case::ragged();
    for (known, logp) in case.known.iter_mut().zip(&mut case.logp) {
        known.behaviour.iter_mut().for_each(|l| *l -= 1e4);
        logp.clone_from(&known.behaviour);
    }
    let Evaluation { d_logp, stats, .. } = case.run(&Preset::Gepo.objective());
    assert!(
        stats.weight_max() > 0.5 && stats.weight_max() < 2.0 && d_logp.iter().flatten().any(|g| *g != 0.0)
    );
}

#[test]
fn a_weight_scales_what_its_response_adds_and_nothing_else() {
    let whole = Case::ragged();
    let mut weighted = Case::ragged();
    for known in weighted.known.iter_mut().filter(|known| known.group == whole.known[0].group) {
        known.weight = 0.5;
    }
    for (name, objective) in objectives() {
        let (before, after) = (whole.run(&objective), weighted.run(&objective));
        assert_ne!(before.d_logp, after.d_logp, "{name}");
        for (known, (before, after)) in weighted.known.iter().zip(before.d_logp.iter().zip(&after.d_logp)) {
            let scaled = before.iter().zip(after).all(|(b, a)| (known.weight * b - a).abs() < 1e-15);
            assert!(scaled, "{name}: {before:?} {after:?}");
        }
    }
}

#[test]
fn nothing_to_train_on_is_a_zero_loss_with_a_zero_gradient() {
    let empty = |known: &Known| Known {
        group: known.group,
        reference: Some(vec![]),
        proximal: Some(vec![]),
        advantage: vec![1.0],
        ..Known::default()
    };
    let known: Vec<Known> = Case::ragged().known.iter().map(empty).collect();
    let case = Case { logp: vec![vec![]; 7], entropy: vec![vec![]; 7], known };
    for (name, objective) in objectives() {
        let Evaluation { loss, d_logp, stats, .. } = case.run(&objective);
        assert_eq!((loss, stats.tokens(), stats.ess()), (0.0, 0, 0.0), "{name}");
        assert!(d_logp.iter().flatten().all(|&g| g == 0.0));
    }
}

#[test]
fn an_empty_response_changes_nobody_elses_expectation() {
    let full = Case::ragged();
    let mut emptied = Case::ragged();
    (emptied.known[3].behaviour, emptied.logp[3], emptied.entropy[3]) = (vec![], vec![], vec![]);
    (emptied.known[3].proximal, emptied.known[3].reference) = (None, None);
    let gepo = Preset::Gepo.objective();
    // Group 0 does not hear of it.
    assert_eq!(emptied.run(&gepo).d_logp[0], full.run(&gepo).d_logp[0]);
}

#[test]
fn advantages_may_differ_by_token() {
    let mut case = Case::single(&[0.5], &[0.5], &[1.0], &[0]);
    case.known[0].behaviour = vec![0.5f64.ln(); 2];
    (case.logp, case.entropy) = (vec![vec![0.5f64.ln(); 2]], vec![vec![]]);
    case.known[0].advantage = vec![2.0, -4.0];
    assert_eq!(case.run(&Preset::Grpo.objective()).d_logp[0], [-1.0, 2.0]);
}

#[test]
fn refuses_what_is_not_finite_missing_or_of_another_length() {
    let grpo = Preset::Grpo.objective();
    let refused = |objective: &Objective, change: &dyn Fn(&mut Known)| {
        let mut known = Case::ragged().known;
        change(&mut known[1]);
        objective.plan(known, 8).unwrap_err()
    };
    assert_eq!(grpo.plan(vec![], 8).unwrap_err(), ObjectiveError::Empty);
    let error = refused(&grpo, &|k| k.behaviour[0] = f64::NEG_INFINITY);
    assert_eq!(error, ObjectiveError::NonFinite { what: "behaviour", row: 1 });
    let error = refused(&grpo, &|k| k.advantage = vec![1.0; 3]);
    assert_eq!(error, ObjectiveError::Lengths { what: "advantage", row: 1, found: 3, expected: 2 });
    let anchored = Objective { kl: kl(Estimator::K3, Anchor::Reference, None), ..grpo };
    let error = refused(&anchored, &|k| k.reference = None);
    assert_eq!(error, ObjectiveError::Missing { what: "reference", row: 1 });

    let case = Case::ragged();
    let plan = case.plan(&grpo);
    let evaluate = |response, logp: &[f64]| {
        plan.evaluate(&[ScoredResponse { response, logp, entropy: &[] }]).unwrap_err()
    };
    assert_eq!(evaluate(9, &[]), ObjectiveError::Unknown { row: 9, responses: 7 });
    assert!(matches!(evaluate(1, &[0.0]), ObjectiveError::Lengths { what: "logp", row: 1, .. }));
    assert_eq!(evaluate(1, &[0.0, f64::NAN]), ObjectiveError::NonFinite { what: "logp", row: 1 });
}

#[test]
fn settings_outside_their_domain_are_named() {
    let grpo = Preset::Grpo.objective();
    let named = |objective: Objective| objective.validate().unwrap_err().to_string();
    let surrogate = Surrogate::PpoClip { low: 1.5, high: 0.2, dual: None };
    assert!(named(Objective { surrogate, ..grpo }).contains("surrogate.low"));
    let surrogate = Surrogate::PpoClip { low: 0.2, high: 0.2, dual: Some(0.5) };
    assert!(named(Objective { surrogate, ..grpo }).contains("surrogate.dual"));
    let correction = Some(Correction { level: Level::Token, bound: WeightBound::Truncate { cap: 0.0 } });
    assert!(named(Objective { correction, ..grpo }).contains("correction.bound.cap"));
    assert!(named(Objective { entropy_bonus: f64::NAN, ..grpo }).contains("entropy_bonus"));
}
