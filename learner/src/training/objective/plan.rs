//! An objective over one batch: first what is constant in θ, then loss and gradients of any part of it.
//!
//! The loss is RLAX eq. 3 with its sign turned, plus λ·EchoClip.

use super::advantage::members;
use super::aggregation::TokenCounts;
use super::correction::{TokenWeights, WeightBound, keep_below};
use super::echo_clip::hardest_step;
use super::kl::Anchor;
use super::known::Known;
use super::ratio::{GroupExpectation, LogRatio, Numbers, mean};
use super::stats::ObjectiveStats;
use super::{EchoClip, Objective, ObjectiveError};

/// What the trained policy says of a response. Lists are as long as [`Known::behaviour`].
#[derive(Debug, Clone, Copy)]
pub struct ScoredResponse<'a> {
    /// Index of the response in the batch.
    pub response: usize,
    /// log π_θ of its tokens.
    pub logp: &'a [f64],
    /// Entropy in nats of the distribution that each token was drawn from; may be left empty when
    /// the objective does not train on entropies and nobody wants the metric.
    pub entropy: &'a [f64],
}

/// Loss and gradients of the responses that were scored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluation {
    /// Their part of the batch's loss, to be minimised. The parts of a batch add up to its loss,
    /// however it is split.
    pub loss: f64,
    /// d loss / d log π_θ of each response's tokens, in the order of the argument.
    pub d_logp: Vec<Vec<f64>>,
    /// d loss / d entropy of the same; empty lists when the objective has no entropy bonus.
    pub d_entropy: Vec<Vec<f64>>,
    /// Figures for the metrics.
    pub stats: ObjectiveStats,
}

/// An objective over one batch.
#[derive(Debug, Clone)]
pub struct ObjectivePlan {
    objective: Objective,
    known: Vec<Known>,
    /// Weight of each token of a response.
    coefficients: Vec<f64>,
    /// Expectation over the group of each response.
    expectations: Vec<GroupExpectation>,
    /// Which tokens stay, where the correction's bound spans the batch.
    kept: Option<Vec<Vec<bool>>>,
    /// Responses of each group that succeeded, when EchoClip is on.
    succeeded: Vec<(usize, Vec<usize>)>,
    groups: usize,
}

impl Objective {
    /// Fixes what is constant in θ over a batch: weights of tokens, group expectations, masks.
    ///
    /// `response_limit` is the longest response that the run allows, in tokens; 0 if nobody knows.
    ///
    /// # Errors
    /// [`ObjectiveError`] when the batch is empty, lists differ in length, one that the objective
    /// needs is missing, or a value is not finite.
    pub fn plan(&self, known: Vec<Known>, response_limit: usize) -> Result<ObjectivePlan, ObjectiveError> {
        self.validate()?;
        if known.is_empty() {
            return Err(ObjectiveError::Empty);
        }
        for (row, response) in known.iter().enumerate() {
            self.check(row, response)?;
        }
        let tokens: Vec<usize> = known.iter().map(|k| k.behaviour.len()).collect();
        let tags: Vec<usize> = known.iter().map(|k| k.group).collect();
        let counts = TokenCounts { tokens: &tokens, groups: &tags, response_limit };
        let mut coefficients = self.aggregation.coefficients(&counts)?;
        coefficients.iter_mut().zip(&known).for_each(|(coefficient, known)| *coefficient *= known.weight);
        let groups = members(tags.iter().copied());
        let mut expectations = vec![GroupExpectation::default(); known.len()];
        for rows in groups.values() {
            let log_q: Vec<f64> =
                rows.iter().filter(|&&i| tokens[i] > 0).map(|&i| mean(&known[i].behaviour)).collect();
            let expectation = GroupExpectation::new(&log_q);
            rows.iter().for_each(|&row| expectations[row] = expectation);
        }
        let good = |&row: &usize| known[row].succeeded && tokens[row] > 0;
        let succeeded = groups.iter().map(|(&tag, rows)| (tag, rows.iter().copied().filter(good).collect()));
        let succeeded = if self.echo_clip.is_some() { succeeded.collect() } else { Vec::new() };
        let kept = self.kept(&known)?;
        let groups = groups.len();
        Ok(ObjectivePlan { objective: *self, known, coefficients, expectations, kept, succeeded, groups })
    }

    fn check(&self, row: usize, known: &Known) -> Result<(), ObjectiveError> {
        let expected = known.behaviour.len();
        let lengths = |what, found: usize| match found == expected {
            true => Ok(()),
            false => Err(ObjectiveError::Lengths { what, row, found, expected }),
        };
        let finite = |what, values: &[f64]| match values.iter().all(|v| v.is_finite()) {
            true => Ok(()),
            false => Err(ObjectiveError::NonFinite { what, row }),
        };
        finite("behaviour", &known.behaviour)?;
        finite("advantage", &known.advantage)?;
        finite("weight", &[known.weight])?;
        if known.advantage.len() != 1 {
            lengths("advantage", known.advantage.len())?;
        }
        for (what, list) in [("proximal", &known.proximal), ("reference", &known.reference)] {
            if let Some(list) = list {
                lengths(what, list.len())?;
                finite(what, list)?;
            }
        }
        if self.needs_reference() && known.reference.is_none() {
            return Err(ObjectiveError::Missing { what: "reference", row });
        }
        if self.correction.is_some_and(|c| c.spans_the_batch()) && known.proximal.is_none() {
            return Err(ObjectiveError::Missing { what: "proximal", row });
        }
        if self.echo_clip.is_some() {
            lengths("step_ends", known.step_ends.last().copied().unwrap_or(0))?;
        }
        Ok(())
    }

    /// Which tokens stay under a bound on the batch's second moment.
    fn kept(&self, known: &[Known]) -> Result<Option<Vec<Vec<bool>>>, ObjectiveError> {
        let Some(WeightBound::SecondMoment { threshold }) = self.correction.map(|c| c.bound) else {
            return Ok(None);
        };
        let mut logs = Vec::new();
        for (row, response) in known.iter().enumerate() {
            let missing = ObjectiveError::Missing { what: "proximal", row };
            let proximal = response.proximal.as_ref().ok_or(missing)?;
            logs.extend(proximal.iter().zip(&response.behaviour).map(|(p, q)| p - q));
        }
        let kept = keep_below(threshold, &logs);
        let mut rest = kept.as_slice();
        let of_response = |response: &Known| {
            let (mine, others) = rest.split_at(response.behaviour.len());
            rest = others;
            mine.to_vec()
        };
        Ok(Some(known.iter().map(of_response).collect()))
    }
}

impl ObjectivePlan {
    /// What is known of a response of the batch.
    #[must_use]
    pub fn known(&self, response: usize) -> &Known {
        &self.known[response]
    }

    /// The same, for who corrects a log-probability before the response is evaluated.
    /// Lists keep their lengths; what was planned from them stays as it is: weights of
    /// tokens, group expectations, masks.
    pub(crate) fn known_mut(&mut self, response: usize) -> &mut Known {
        &mut self.known[response]
    }

    /// Loss and gradients of some of the batch's responses. With [`EchoClip`], the successful
    /// responses of a group must come together.
    ///
    /// # Errors
    /// [`ObjectiveError`] for an unknown response, lists of another length, log-probabilities that
    /// are not finite, or a group in parts.
    pub fn evaluate(&self, scored: &[ScoredResponse<'_>]) -> Result<Evaluation, ObjectiveError> {
        let mut evaluation = Evaluation::default();
        for scored in scored {
            self.check(scored)?;
            self.add(scored, &mut evaluation);
        }
        self.echo(scored, &mut evaluation)?;
        Ok(evaluation)
    }

    fn check(&self, scored: &ScoredResponse<'_>) -> Result<(), ObjectiveError> {
        let row = scored.response;
        let responses = self.known.len();
        let known = self.known.get(row).ok_or(ObjectiveError::Unknown { row, responses })?;
        let expected = known.behaviour.len();
        let found = scored.logp.len();
        if found != expected {
            return Err(ObjectiveError::Lengths { what: "logp", row, found, expected });
        }
        let found = scored.entropy.len();
        if found != expected && (found > 0 || self.objective.needs_entropy()) {
            return Err(ObjectiveError::Lengths { what: "entropy", row, found, expected });
        }
        if !scored.logp.iter().chain(scored.entropy).all(|v| v.is_finite()) {
            return Err(ObjectiveError::NonFinite { what: "logp", row });
        }
        Ok(())
    }

    /// One response without EchoClip.
    fn add(&self, scored: &ScoredResponse<'_>, evaluation: &mut Evaluation) {
        let row = scored.response;
        let known = &self.known[row];
        let ScoredResponse { logp, entropy, .. } = *scored;
        let mut d_logp = vec![0.0; logp.len()];
        let mut d_entropy = Vec::new();
        if !logp.is_empty() {
            let proximal = known.proximal.as_deref().unwrap_or(logp);
            let weights = self.weights(row, proximal);
            let tokens: Vec<f64> = match &weights {
                Some(weights) => weights.bounded.iter().map(|w| w * self.coefficients[row]).collect(),
                None => vec![self.coefficients[row]; logp.len()],
            };
            let raw = weights.as_ref().map(|w| w.raw.as_slice());
            evaluation.loss +=
                self.surrogate(scored, proximal, &tokens, raw, &mut d_logp, &mut evaluation.stats);
            evaluation.loss += self.regularise(known, logp, &tokens, &mut d_logp);
            let bonus = self.objective.entropy_bonus;
            if bonus > 0.0 {
                evaluation.loss -=
                    tokens.iter().zip(entropy).map(|(weight, h)| bonus * weight * h).sum::<f64>();
                d_entropy = tokens.iter().map(|weight| -bonus * weight).collect();
            }
        }
        evaluation.stats.add_tokens(known, logp, entropy);
        evaluation.d_logp.push(d_logp);
        evaluation.d_entropy.push(d_entropy);
    }

    fn weights(&self, row: usize, proximal: &[f64]) -> Option<TokenWeights> {
        let mut weights = self.objective.correction?.weights(proximal, &self.known[row].behaviour);
        if let Some(kept) = &self.kept {
            let masked = weights.bounded.iter_mut().zip(&kept[row]).filter(|(_, kept)| !**kept);
            masked.for_each(|(weight, _)| *weight = 0.0);
        }
        Some(weights)
    }

    /// -Σ weight · J. `raw` are the corrections before their bound, which the figures show
    /// where there are any.
    fn surrogate(
        &self,
        scored: &ScoredResponse<'_>,
        proximal: &[f64],
        weights: &[f64],
        raw: Option<&[f64]>,
        d_logp: &mut [f64],
        stats: &mut ObjectiveStats,
    ) -> f64 {
        let known = &self.known[scored.response];
        let logp = scored.logp;
        let advantage = mean(&known.advantage);
        let group = self.expectations[scored.response];
        let numbers = Numbers { logp, behaviour: &known.behaviour, proximal, group, advantage };
        match self.objective.ratio.log(&numbers) {
            LogRatio::Tokens(logs) => {
                let mut loss = 0.0;
                for (t, log) in logs.into_iter().enumerate() {
                    let advantage = known.advantage.get(t).copied().unwrap_or(advantage);
                    let term = self.objective.surrogate.term(log, advantage, logp[t]);
                    stats.add_term(raw.map_or(term.ratio, |raw| raw[t]), term.clipped);
                    loss -= weights[t] * term.value;
                    d_logp[t] -= weights[t] * term.slope;
                }
                loss
            }
            LogRatio::Response { value, slopes } => {
                // Where a ratio was cut it has no slope; the mean log-probability has one everywhere.
                let through_logp = self.objective.surrogate.is_through_logp();
                let slopes = if through_logp { vec![1.0 / logp.len() as f64; logp.len()] } else { slopes };
                let weight: f64 = weights.iter().sum();
                let term = self.objective.surrogate.term(value, advantage, mean(logp));
                stats.add_term(raw.map_or(term.ratio, mean), term.clipped);
                d_logp.iter_mut().zip(slopes).for_each(|(d, slope)| *d -= weight * term.slope * slope);
                -weight * term.value
            }
        }
    }

    /// β Σ weight · KL.
    fn regularise(&self, known: &Known, logp: &[f64], weights: &[f64], d_logp: &mut [f64]) -> f64 {
        let Some(kl) = &self.objective.kl else { return 0.0 };
        let anchor = match kl.anchor {
            Anchor::Behaviour => &known.behaviour,
            // Checked when the plan was made.
            Anchor::Reference => known.reference.as_ref().unwrap_or(&known.behaviour),
        };
        let mut loss = 0.0;
        for (t, (&logp, &anchor)) in logp.iter().zip(anchor).enumerate() {
            let (value, slope) = kl.term(logp, anchor);
            loss += kl.beta * weights[t] * value;
            d_logp[t] += kl.beta * weights[t] * slope;
        }
        loss
    }

    /// EchoClip of every group that has a response here.
    fn echo(&self, scored: &[ScoredResponse<'_>], evaluation: &mut Evaluation) -> Result<(), ObjectiveError> {
        let Some(EchoClip { lambda, .. }) = self.objective.echo_clip else { return Ok(()) };
        let mut position = vec![None; self.known.len()];
        scored.iter().enumerate().for_each(|(at, scored)| position[scored.response] = Some(at));
        for (group, rows) in &self.succeeded {
            let here: Vec<usize> = rows.iter().filter_map(|&row| position[row]).collect();
            if here.is_empty() {
                continue;
            }
            if here.len() < rows.len() {
                return Err(ObjectiveError::SplitGroup { group: *group });
            }
            let mut hardest: Option<(usize, usize, f64)> = None;
            for at in here {
                let steps = &self.known[scored[at].response].step_ends;
                if let Some((end, entropy)) = hardest_step(steps, scored[at].entropy)
                    && hardest.is_none_or(|(_, _, top)| entropy > top)
                {
                    hardest = Some((at, end, entropy));
                }
            }
            if let Some((at, end, _)) = hardest {
                let weight = self.known[scored[at].response].weight * lambda / (self.groups * end) as f64;
                evaluation.loss -= weight * scored[at].logp[..end].iter().sum::<f64>();
                evaluation.d_logp[at][..end].iter_mut().for_each(|d| *d -= weight);
                evaluation.stats.add_echo(end);
            }
        }
        Ok(())
    }
}
