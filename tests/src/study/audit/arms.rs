//! Whom the audit is tried on.

use super::players::{self, AuditPlayer, at_temperature, best_of, edited, made_up, one_made_up, steered};
use super::policies::{RATES, Versions};
use super::{AuditStudy, gpu};
use echo_policy::audit::Tolerance;
use echo_policy::model::precision::Precision;
use serde::Serialize;

/// What is expected of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExpectedFinding {
    /// An honest machine: whatever is found is a false alarm.
    Honest,
    /// A lie that has to be found.
    Found,
    /// A lie so small that the rate at which it is found is of interest, whatever it is.
    Weaker,
}

/// One kind of machine or cheat.
pub(super) struct AuditArm<'a> {
    pub(super) name: String,
    pub(super) expected: ExpectedFinding,
    /// What it says that it computes in, and what the audit computes in.
    pub(super) precision: Precision,
    /// The limits that learners and verifiers use for it.
    pub(super) tolerance: Tolerance,
    /// How many orders it answers.
    pub(super) responses: usize,
    pub(super) player: AuditPlayer<'a>,
}

/// An arm that cannot be tried on this machine.
#[derive(Debug, Serialize)]
pub(super) struct Absent {
    pub(super) arm: &'static str,
    pub(super) why: String,
}

/// Every arm, honest ones first, and those that this machine lacks something for.
pub(super) fn arms<'a>(
    versions: &'a Versions,
    study: &AuditStudy,
) -> anyhow::Result<(Vec<AuditArm<'a>>, Vec<Absent>)> {
    use ExpectedFinding::{Found, Honest, Weaker};
    let tokens = study.tokens;
    let (mut arms, mut absent) = (Vec::new(), Vec::new());
    if study.gpu > 0 {
        match gpu::open() {
            Ok(gpu) => arms.push(AuditArm {
                name: format!("honest, wgpu on {}, f32", gpu.info().name),
                expected: Honest,
                precision: Precision::F32,
                tolerance: Tolerance::of(Precision::F32.name(), Precision::F32, 1.0)?,
                responses: study.gpu,
                player: players::under(versions.on_gpu(&gpu)?, tokens),
            }),
            Err(why) => absent.push(Absent { arm: "honest, wgpu, f32", why }),
        }
    }
    let mut add = |expected, name: String, precision: Precision, player| -> anyhow::Result<()> {
        let tolerance = Tolerance::of(precision.name(), precision, 1.0)?;
        let responses = if expected == Honest { study.honest } else { study.cheats };
        arms.push(AuditArm { name, expected, precision, tolerance, responses, player });
        Ok(())
    };
    for precision in Precision::ALL {
        let name = format!("honest, cpu, {precision}");
        add(Honest, name, precision, players::under(versions.newest(precision)?, tokens))?;
        // Where the order belongs to the recipe, who adds in another one computes in something else.
        let (expected, honest) = if precision.is_exact() { (Weaker, "") } else { (Honest, "honest, ") };
        let name = format!("{honest}another order of sums, {precision}");
        add(expected, name, precision, players::under(versions.elsewhere(precision)?, tokens))?;
    }
    for (at, claimed) in Precision::ALL.into_iter().enumerate() {
        for precision in Precision::ALL.into_iter().skip(at + 1) {
            let name = format!("{precision} passed off as {claimed}");
            add(Found, name, claimed, players::under(versions.newest(precision)?, tokens))?;
        }
    }

    for precision in Precision::ALL {
        let newest = || versions.newest(precision);
        for (rate, updates, weights) in &versions.older {
            let policy = versions.policy(weights, precision)?;
            let name = format!("older version, {updates} updates at {rate:e}");
            // What moves so little at the rate of large models that it is no lie worth telling is
            // not required to be found.
            let expected = if *rate == RATES[0] { Found } else { Weaker };
            add(expected, name, precision, players::under(policy, tokens))?;
        }
        for (expected, temperature) in [(Found, 0.9), (Found, 1.1), (Weaker, 1.01), (Weaker, 1.001)] {
            let name = format!("temperature {temperature}");
            let player = at_temperature(newest()?, tokens, temperature, |completion| &completion.logprobs);
            add(expected, name, precision, player)?;
            // As if it had drawn at 1.
            let name = format!("temperature {temperature}, log-probs at 1");
            let player =
                at_temperature(newest()?, tokens, temperature, |completion| &completion.raw_logprobs);
            add(expected, name, precision, player)?;
        }
        let smaller = versions.smaller.policy(precision)?;
        add(Found, "smaller model".into(), precision, players::under(smaller, tokens))?;
        add(Found, "best of 4".into(), precision, best_of(newest()?, tokens, 4))?;
        add(Found, "one token edited".into(), precision, edited(versions, newest()?, tokens))?;
        let name = "one token edited, drawn on behind it";
        add(Found, name.into(), precision, steered(newest()?, tokens))?;
        add(
            Found,
            "log-probs 10 % smaller".into(),
            precision,
            made_up(newest()?, tokens, |logp| 0.9 * logp),
        )?;
        add(Found, "log-probs all the same".into(), precision, made_up(newest()?, tokens, |_| -0.5))?;
        for (expected, by) in [(Found, 0.1), (Found, 0.01), (Weaker, 1e-3), (Weaker, 1e-4)] {
            let name = format!("log-probs {by} lower");
            add(expected, name, precision, made_up(newest()?, tokens, move |logp| logp - by))?;
        }
        for (expected, by) in [(Found, 0.5), (Weaker, 0.1), (Weaker, 0.01)] {
            let name = format!("one log-prob {by} lower");
            add(expected, name, precision, one_made_up(newest()?, tokens, by))?;
        }
    }
    Ok((arms, absent))
}
