//! What to change where no budget is safe, and what to know of the one that is.

use super::forecast::{BUDGETS, Bottleneck, Course, Forecast, Obstacle, PlanInputs, cheapest};

/// Sentences, each with what to do.
pub(super) fn advice(inputs: &PlanInputs, forecasts: &[Forecast]) -> Vec<String> {
    match cheapest(forecasts) {
        Some(best) => of_the_best(best),
        None => changes(inputs, forecasts),
    }
}

fn of_the_best(best: &Forecast) -> Vec<String> {
    let mut found = Vec::new();
    let Forecast { budget, full, deltas, .. } = best;
    if full.obstacle.is_some() {
        found.push(format!(
            "S = {budget} is safe with deltas alone: a node that comes late needs the policy in full, in {:.1} s",
            full.broadcast_s
        ));
    }
    if !deltas.too_slow.is_empty() {
        found.push(too_slow(*budget, deltas));
    }
    found
}

fn too_slow(budget: u64, course: &Course) -> String {
    format!(
        "an order of {} and a broadcast do not fit into {budget} updates: they can evaluate, verify and relay",
        course.too_slow.join(", ")
    )
}

/// What is in the way of the budget that comes nearest: the last one, which asks for the least.
fn changes(inputs: &PlanInputs, forecasts: &[Forecast]) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(period) = inputs.period
        && forecasts.iter().any(|forecast| forecast.deltas.obstacle == Some(Obstacle::Period))
    {
        found.push(format!(
            "[staleness] period = {period} is above S+1 for S below {}: leave it out for S-1",
            period.saturating_sub(1)
        ));
    }
    let Some(last) = forecasts.last() else { return found };
    let course = &last.deltas;
    match &course.obstacle {
        Some(Obstacle::Broadcast) => found.push(of_broadcast(inputs, last)),
        Some(Obstacle::Pool { missing }) => found.extend(of_pool(inputs, last, *missing)),
        Some(Obstacle::Lag { lag }) => found.push(format!(
            "at S = {} the lag may be {lag} updates by equation 7: {}",
            last.budget,
            mend_of_broadcast(course)
        )),
        Some(Obstacle::Period) | None => {}
    }
    if !course.too_slow.is_empty() && course.obstacle != Some(Obstacle::Broadcast) {
        found.push(too_slow(last.budget, course));
    }
    found
}

fn of_broadcast(inputs: &PlanInputs, last: &Forecast) -> String {
    let (course, period) = (&last.deltas, last.period);
    format!(
        "even as deltas a broadcast takes {:.1} s, and {period} updates of {:.2} s are no longer: {}. Larger updates ([train] groups_per_update) \
         leave more time, too",
        course.broadcast_s,
        inputs.train_s,
        mend_of_broadcast(course)
    )
}

fn mend_of_broadcast(course: &Course) -> &'static str {
    match course.bottleneck {
        Bottleneck::Source => "the learner's uplink limits it: rent a machine with a faster one (uplink)",
        Bottleneck::Downlink => "the slowest downlink limits it: leave the class with it out (down)",
        Bottleneck::Uplinks => {
            "all uplinks together limit it: take nodes with faster ones (up), or a faster uplink of the learner"
        }
    }
}

fn of_pool(inputs: &PlanInputs, last: &Forecast, missing: f64) -> Vec<String> {
    let course = &last.deltas;
    let mut found = Vec::new();
    let rates =
        inputs.classes.iter().filter(|class| class.rate > 0.0 && !course.too_slow.contains(&class.name));
    let cheapest = rates.min_by(|a, b| (a.price / a.rate).total_cmp(&(b.price / b.rate)));
    let target = course.target.unwrap_or(f64::INFINITY);
    if let Some(class) = cheapest {
        found.push(format!(
            "all nodes together bring {:.3} rollouts/s, and S = {} asks for {target:.3}: {} more of {} would do (count)",
            course.pool,
            BUDGETS.end(),
            (missing / class.rate).ceil(),
            class.name
        ));
    }
    if course.pool > 0.0 {
        // The time at which equation 1 is just kept.
        let period_s = inputs.batch / course.pool + course.broadcast_s / last.period as f64;
        found.push(format!(
            "or let the learner wait: with these nodes an update takes about {period_s:.1} s in place of {:.1} s",
            inputs.train_s
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn inputs(count: u64, bytes: f64) -> PlanInputs {
        let plan = testing::inputs(testing::rented(count));
        PlanInputs { updates: 10, full_bytes: bytes, delta_bytes: bytes / 10.0, ..plan }
    }

    fn of(inputs: &PlanInputs) -> Vec<String> {
        advice(inputs, &inputs.forecasts())
    }

    #[test]
    fn too_few_nodes_are_counted() {
        // 64/4 + 2/11 seconds are 16.18.
        // κ = 11, T_bcast = 2 s: 1.1·11·64/108 = 7.170 rollouts a second; four nodes bring four.
        let found = of(&inputs(4, 250e6));
        assert!(found[0].contains("4 more of rented") && found[0].contains("7.170"), "{found:?}");
        assert!(found[1].contains("16.2 s"), "{found:?}");
    }

    #[test]
    fn a_broadcast_that_is_too_long_is_told_with_what_limits_it() {
        let found = of(&inputs(1_000, 25e9));
        assert!(found[0].contains("learner's uplink") && found[0].contains("200.0 s"), "{found:?}");
        let set = PlanInputs { period: Some(12), ..inputs(1_000, 25e9) };
        assert!(of(&set)[0].contains("[staleness] period = 12"), "{:?}", of(&set));
    }

    #[test]
    fn a_safe_plan_says_what_its_deltas_carry() {
        let found = of(&inputs(50, 250e6));
        assert!(found.len() == 1 && found[0].contains("20.0 s"), "{found:?}");
        assert_eq!(of(&inputs(50, 25e6)), [""; 0]);
    }
}
