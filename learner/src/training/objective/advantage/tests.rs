use super::*;

fn outcomes(rewards: &[f64], groups: &[usize]) -> Vec<RewardedResponse> {
    rewards
        .iter()
        .zip(groups)
        .map(|(&reward, &group)| RewardedResponse { reward, length: 10, group })
        .collect()
}

fn rule(baseline: Baseline, scale: Scale) -> Advantage {
    Advantage { baseline, scale, overlong: None, degenerate: Degenerate::Zero }
}

#[test]
fn group_mean_centres_each_group_on_its_own() {
    let a = rule(Baseline::GroupMean, Scale::None).of(&outcomes(&[1.0, 10.0, 0.0, 30.0], &[0, 7, 0, 7]));
    assert_eq!(a.unwrap(), [0.5, -10.0, -0.5, 10.0]);
}

#[test]
fn group_std_is_the_unbiased_one() {
    // Rewards 0 and 2: mean 1, unbiased variance 2.
    let a = rule(Baseline::GroupMean, Scale::GroupStd).of(&outcomes(&[0.0, 2.0], &[3, 3])).unwrap();
    let expected = 1.0 / (2f64.sqrt() + 1e-6);
    assert_eq!(a, [-expected, expected]);
}

#[test]
fn leave_one_out_compares_with_the_others() {
    let a = rule(Baseline::LeaveOneOut, Scale::None).of(&outcomes(&[3.0, 0.0, 6.0], &[1, 1, 1])).unwrap();
    assert_eq!(a, [0.0, -4.5, 4.5]);
}

#[test]
fn the_batch_is_one_large_group_for_reinforce_plus_plus() {
    let of_batch = rule(Baseline::BatchMean, Scale::BatchStd).of(&outcomes(&[1.0, 0.0, 5.0], &[0, 1, 2]));
    let of_group = rule(Baseline::GroupMean, Scale::GroupStd).of(&outcomes(&[1.0, 0.0, 5.0], &[0, 0, 0]));
    assert_eq!(of_batch.unwrap(), of_group.unwrap());
}

#[test]
fn the_batch_deviation_is_that_of_the_differences_from_the_baseline() {
    let outcomes = outcomes(&[0.0, 1.0, 10.0, 11.0], &[0, 0, 1, 1]);
    let a = rule(Baseline::GroupMean, Scale::BatchStd).of(&outcomes).unwrap();
    // Differences of ±.5: unbiased variance 1/3.
    let expected = 0.5 / ((1.0f64 / 3.0).sqrt() + 1e-6);
    assert_eq!(a, [-expected, expected, -expected, expected]);
}

#[test]
fn equal_rewards_and_single_responses_give_exact_zeros() {
    for baseline in [Baseline::GroupMean, Baseline::LeaveOneOut] {
        for scale in [Scale::None, Scale::GroupStd] {
            let a = rule(baseline, scale).of(&outcomes(&[0.1, 0.1, 0.1, 5.0], &[0, 0, 0, 1])).unwrap();
            assert_eq!(a, [0.0; 4]);
        }
    }
}

#[test]
fn rescaling_gives_the_degenerate_groups_weight_to_the_others() {
    // Group 1 of three responses is degenerate; 5 responses / 2 of group 0 = 2.5.
    let outcomes = outcomes(&[1.0, 7.0, 0.0, 7.0, 7.0], &[0, 1, 0, 1, 1]);
    let of = |baseline, scale, degenerate| Advantage { degenerate, ..rule(baseline, scale) }.of(&outcomes);
    let zero = of(Baseline::GroupMean, Scale::None, Degenerate::Zero).unwrap();
    assert_eq!(zero, [0.5, 0.0, -0.5, 0.0, 0.0]);
    let rescaled = of(Baseline::GroupMean, Scale::None, Degenerate::Rescale).unwrap();
    assert_eq!(rescaled, [1.25, 0.0, -1.25, 0.0, 0.0]);
    // It comes after the deviation, which would take it out again.
    let scaled = of(Baseline::GroupMean, Scale::GroupStd, Degenerate::Rescale).unwrap();
    let expected = 2.5 * (0.5 / (0.5f64.sqrt() + 1e-6));
    assert!((scaled[0] - expected).abs() < 1e-12 && (scaled[2] + expected).abs() < 1e-12);
    // Rewards of a group may be equal and still say something, when they are not compared within it.
    let bare = of(Baseline::None, Scale::None, Degenerate::Rescale).unwrap();
    assert_eq!(bare, [1.0, 7.0, 0.0, 7.0, 7.0]);
}

#[test]
fn rescaling_leaves_a_response_at_its_groups_mean_in_the_count() {
    let rule = Advantage { degenerate: Degenerate::Rescale, ..rule(Baseline::GroupMean, Scale::None) };
    // Group 0 has a response at its mean, and is not degenerate: 4 / 3, as the group of one is.
    let a = rule.of(&outcomes(&[0.0, 3.0, 6.0, 9.0], &[0, 0, 0, 1])).unwrap();
    assert_eq!(a, [-3.0 * (4.0 / 3.0), 0.0, 3.0 * (4.0 / 3.0), 0.0]);
    // Nothing to rescale by.
    assert_eq!(rule.of(&outcomes(&[2.0, 2.0], &[0, 0])).unwrap(), [0.0; 2]);
}

#[test]
fn long_responses_are_punished_linearly() {
    let overlong = Overlong { limit: 100, buffer: 20, penalty: 0.5 };
    let rule = Advantage { overlong: Some(overlong), ..rule(Baseline::None, Scale::None) };
    let of = |length| rule.of(&[RewardedResponse { reward: 1.0, length, group: 0 }]).unwrap()[0];
    assert_eq!([80, 90, 100, 900].map(of), [1.0, 0.75, 0.5, 0.5]);
}

#[test]
fn rewards_that_are_not_finite_are_refused() {
    let rewards = outcomes(&[1.0, f64::NAN], &[0, 0]);
    assert!(matches!(
        rule(Baseline::GroupMean, Scale::None).of(&rewards),
        Err(ObjectiveError::NonFinite { what: "rewards", row: 1 })
    ));
}

#[test]
fn gae_by_hand() {
    // δ = (1 + .5·2 - 1, 0 + 0 - 2) = (1, -2); Â_0 = 1 + .5·.5·(-2).
    assert_eq!(gae(&[1.0, 0.0], &[1.0, 2.0], 0.5, 0.5).unwrap(), [0.5, -2.0]);
    // γ = λ = 1 without values: the return to go.
    assert_eq!(gae(&[0.0, 0.0, 3.0], &[0.0; 3], 1.0, 1.0).unwrap(), [3.0; 3]);
    assert!(gae(&[0.0], &[], 1.0, 1.0).is_err());
    assert!(gae(&[0.0], &[0.0], 1.5, 1.0).is_err());
}
