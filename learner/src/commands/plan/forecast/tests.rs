use super::super::testing::{class, inputs};
use super::*;

fn nodes(course: &Course) -> Vec<(&str, u64)> {
    course.nodes.iter().map(|chosen| (chosen.class.as_str(), chosen.nodes)).collect()
}

#[test]
fn the_third_budget_by_hand() {
    let plan = inputs(vec![class("rented", 50, 0.5, 1.0)]).forecasts();
    let third = &plan[2];
    assert_eq!((third.budget, third.period), (3, 2));
    let course = &third.deltas;
    // N nodes and the source have equal uplinks: N·F/((N+1)·link) is below F/link, which is 2 s.
    assert_eq!((course.broadcast_s, course.bottleneck), (2.0, Bottleneck::Source));
    // 2·64/(2·10 - 2) = 7.111; times 1.1 is 7.822: eight nodes of one rollout a second.
    assert!((course.required.unwrap() - 128.0 / 18.0).abs() < 1e-9);
    assert!((course.target.unwrap() - 1.1 * 128.0 / 18.0).abs() < 1e-9);
    assert_eq!((nodes(course), course.pool), (vec![("rented", 8)], 8.0));
    // Equation 7: 2 + ⌈(2 + 64/8)/10⌉ - 1 = 2; equation 12: 2 + ⌈(1 - 1/2)·2/10⌉ = 3.
    assert_eq!((course.lag, course.lag_overlapping), (Some(2), Some(3)));
    // 8·0.5 + 1 = 5 dollars an hour; an update is 1/360 of one.
    assert_eq!(course.usd_per_hour, 5.0);
    assert!((course.usd_per_update - 5.0 / 360.0).abs() < 1e-12 && (course.usd - 5.0).abs() < 1e-9);
    assert_eq!(course.obstacle, None);
    // In full, a broadcast takes as long as two updates.
    assert_eq!((third.full.required, third.full.obstacle.clone()), (None, Some(Obstacle::Broadcast)));
    // With S = 4 it fits: 3·64/(30 - 20) = 19.2, times 1.1 is 21.12.
    assert_eq!(nodes(&plan[3].full), [("rented", 22)]);
    // 3 + ⌈(20 + 64/22)/10⌉ - 1 = 5.
    assert_eq!(plan[3].full.obstacle, Some(Obstacle::Lag { lag: 5 }));
}

#[test]
fn the_first_budget_has_a_period_of_one_and_a_set_period_stays() {
    let plan = inputs(vec![class("rented", 50, 0.5, 1.0)]);
    let periods: Vec<u64> = plan.forecasts().iter().map(|forecast| forecast.period).collect();
    assert_eq!(periods, [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let set = PlanInputs { period: Some(4), ..plan }.forecasts();
    assert!(set.iter().all(|forecast| forecast.period == 4));
    assert_eq!(set[1].deltas.obstacle, Some(Obstacle::Period));
    assert_ne!(set[2].deltas.obstacle, Some(Obstacle::Period));
}

#[test]
fn the_cheapest_work_first_and_volunteers_before_them() {
    let classes =
        vec![class("a100", 9, 3.06, 4.0), class("rtx5090", 4, 0.35, 1.0), class("volunteers", 3, 0.0, 0.5)];
    // ρ is 0.765, 0.35 and 0. Of 7.822 the volunteers bring 1.5, four cards 4, and one a100 the rest.
    let third = &inputs(classes).forecasts()[2];
    assert_eq!(nodes(&third.deltas), [("a100", 1), ("rtx5090", 4), ("volunteers", 3)]);
    assert!((third.deltas.usd_per_hour - (1.0 + 3.06 + 4.0 * 0.35)).abs() < 1e-9);
}

#[test]
fn a_broadcast_is_limited_by_source_downlinks_or_all_uplinks() {
    let slow_up = NodeClass { up: BytesPerSec(1_250_000), ..class("asymmetric", 9, 0.0, 1.0) };
    let plan = inputs(vec![slow_up.clone()]);
    // 9 · 25 MB over 12.5 + 9 · 1.25 MB/s.
    let (seconds, bottleneck) = plan.broadcast(&[9], 25e6);
    assert!((seconds - 225.0 / 23.75).abs() < 1e-9, "{seconds}");
    assert_eq!(bottleneck, Bottleneck::Uplinks);
    let star = PlanInputs { mode: DisseminationMode::Star, ..plan };
    assert_eq!(star.broadcast(&[9], 25e6).0, 18.0);
    // One of twelve is slow: the share 1/1.1 does not wait for it. Of ten, it would.
    let slow_down = NodeClass { down: BytesPerSec(1_250_000), ..class("slow", 2, 0.0, 1.0) };
    let mixed = inputs(vec![class("fast", 11, 0.0, 1.0), slow_down]);
    assert_eq!(mixed.broadcast(&[11, 1], 25e6), (2.0, Bottleneck::Source));
    assert_eq!(mixed.broadcast(&[9, 1], 25e6), (20.0, Bottleneck::Downlink));
    let late = PlanInputs { overhead: 1.5, install_s: 4.0, ..mixed };
    assert_eq!(late.broadcast(&[9, 1], 25e6).0, 34.0);
}

#[test]
fn what_is_missing_and_who_is_too_slow_are_named() {
    let few = &inputs(vec![class("rented", 5, 0.5, 1.0)]).forecasts()[2].deltas;
    let Some(Obstacle::Pool { missing }) = few.obstacle else { panic!("{few:?}") };
    assert!((missing - (1.1 * 128.0 / 18.0 - 5.0)).abs() < 1e-9);
    // Orders of 29 s and a broadcast of 2 s do not fit into three updates of 10 s, but into four.
    let laptop = NodeClass { order_s: 29.0, ..class("laptops", 50, 0.0, 1.0) };
    let plan = inputs(vec![laptop, class("rented", 50, 0.5, 1.0)]).forecasts();
    assert_eq!(plan[2].deltas.too_slow, ["laptops"]);
    assert_eq!(nodes(&plan[2].deltas), [("rented", 8)]);
    assert_eq!(nodes(&plan[3].deltas), [("laptops", 8)]);
    // Nobody at all.
    let none = &inputs(Vec::new()).forecasts()[2].deltas;
    assert!(matches!(none.obstacle, Some(Obstacle::Pool { .. })) && none.lag.is_none());
}

#[test]
fn a_day_of_traffic_by_hand() {
    let course = &inputs(vec![class("rented", 8, 0.5, 1.0)]).forecasts()[2].deltas;
    // 8640 updates: 4320 publications of 25 MB, and 552,960 trajectories of 1 kB.
    let Traffic { learner_up_gb, learner_down_gb, node_up_gb, node_down_gb } = course.traffic;
    assert!((node_down_gb - 108.0).abs() < 1e-9 && (learner_down_gb - 0.552_96).abs() < 1e-9);
    // One chain: the learner sends a single copy, and seven of eight nodes pass it on.
    assert!((learner_up_gb - 108.0).abs() < 1e-9);
    assert!((node_up_gb - (7.0 * 108.0 + 0.552_96) / 8.0).abs() < 1e-9);
}

#[test]
fn the_cheapest_budget_that_is_safe_is_found() {
    let plan = inputs(vec![class("rented", 50, 0.5, 1.0)]).forecasts();
    // μ_target falls from 8.8 at κ = 1 to 7.82 at κ = 2, 7.54, 7.41, … and is never 7: nine nodes, then
    // eight. S = 3 is the first with eight.
    assert_eq!(cheapest(&plan).unwrap().budget, 3);
    assert_eq!(cheapest(&inputs(Vec::new()).forecasts()), None);
}
