//! Random schedules: what nobody thought of.

use super::scenario::{Scenario, ScenarioStep};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::rng::Draws;

/// Nodes of a network, from and to.
const NODES: (i64, i64) = (3, 5);
/// Troubles of a schedule, from and to.
const TROUBLES: (i64, i64) = (2, 5);
/// The troubles of a schedule begin within so many milliseconds.
const SPAN_MS: i64 = 60_000;
/// Whatever is taken down comes back after so many milliseconds, from and to.
const LASTS_MS: (i64, i64) = (500, 8_000);
/// A clock is shifted by at most so many seconds.
const SHIFT_S: i64 = 90_000;
/// Training is at its pace again within this time.
const BOUND_S: u64 = 60;
/// Updates that it has to make within it.
const UPDATES_AFTER: u64 = 20;

/// What goes wrong, and how it is undone.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Kill,
    Stop,
    Freeze,
    Clock,
}

/// The schedule of a seed.
pub(super) fn draw(seed: u64) -> Scenario {
    let mut draws = Draws::new(*ContentId::of(format!("trouble {seed}").as_bytes()).as_bytes());
    let mut between = |(low, high): (i64, i64)| draws.between(low, high);
    let (nodes, troubles) = (between(NODES) as usize, between(TROUBLES) as usize);
    let mut who: Vec<String> = (1..=nodes).map(|number| format!("node-{number}")).collect();
    who.extend(["learner".into(), "bootstrap".into()]);
    // Nobody is in two troubles at once.
    draws.shuffle(&mut who);
    let mut events: Vec<(i64, ScenarioStep)> = Vec::new();
    for who in who.into_iter().take(troubles) {
        let begins = draws.between(0, SPAN_MS);
        let ends = begins + draws.between(LASTS_MS.0, LASTS_MS.1);
        let kinds = match who.as_str() {
            "bootstrap" => &[Kind::Kill, Kind::Stop, Kind::Freeze][..],
            _ => &[Kind::Kill, Kind::Stop, Kind::Freeze, Kind::Clock][..],
        };
        let kind = draws.pick(kinds).copied().unwrap_or(Kind::Kill);
        let name = || who.clone();
        events.extend(match kind {
            Kind::Kill => [(begins, ScenarioStep::Kill(name())), (ends, ScenarioStep::Start(name()))],
            Kind::Stop => [(begins, ScenarioStep::Stop(name())), (ends, ScenarioStep::Start(name()))],
            Kind::Freeze => [(begins, ScenarioStep::Freeze(name())), (ends, ScenarioStep::Thaw(name()))],
            Kind::Clock => {
                let shift_s = draws.between(-SHIFT_S, SHIFT_S);
                [
                    (begins, ScenarioStep::Clock { who: name(), shift_s }),
                    (ends, ScenarioStep::Clock { who: name(), shift_s: 0 }),
                ]
            }
        });
    }
    events.sort_by_key(|(due, _)| *due);
    let mut at = 0;
    let steps = events.into_iter().flat_map(|(due, step)| {
        let pause = ScenarioStep::Pause((due - at) as f64 / 1e3);
        at = due;
        [pause, step]
    });
    Scenario {
        about: format!("{troubles} troubles among {nodes} nodes, a learner and a boot node"),
        steps: steps.collect(),
        bound_s: BOUND_S,
        updates_after: UPDATES_AFTER,
        ..Scenario::of_nodes(&format!("random-{seed}"), nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_its_schedule_and_whatever_goes_down_comes_back() {
        for seed in 0..200 {
            let (scenario, again) = (draw(seed), draw(seed));
            assert_eq!(format!("{:?}", scenario.steps), format!("{:?}", again.steps));
            let count = |is: fn(&ScenarioStep) -> bool| scenario.steps.iter().filter(|step| is(step)).count();
            assert_eq!(
                count(|step| matches!(step, ScenarioStep::Kill(_) | ScenarioStep::Stop(_))),
                count(|step| matches!(step, ScenarioStep::Start(_)))
            );
            assert_eq!(
                count(|step| matches!(step, ScenarioStep::Freeze(_))),
                count(|step| matches!(step, ScenarioStep::Thaw(_)))
            );
            assert!((NODES.0..=NODES.1).contains(&(scenario.nodes as i64)));
        }
        assert_ne!(format!("{:?}", draw(1).steps), format!("{:?}", draw(2).steps));
    }
}
