use super::*;

fn outcomes(rewards: &[f64], groups: &[usize]) -> Vec<Outcome> {
    rewards.iter().zip(groups).map(|(&reward, &group)| Outcome { reward, length: 10, group }).collect()
}

fn rule(baseline: Baseline, scale: Scale) -> Advantage {
    Advantage { baseline, scale, overlong: None }
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
fn long_responses_are_punished_linearly() {
    let overlong = Overlong { limit: 100, buffer: 20, penalty: 0.5 };
    let rule = Advantage { baseline: Baseline::None, scale: Scale::None, overlong: Some(overlong) };
    let of = |length| rule.of(&[Outcome { reward: 1.0, length, group: 0 }]).unwrap()[0];
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
