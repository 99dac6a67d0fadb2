//! `chain_sum`: `12+34=` → `46`; worked out in steps, `1+2+3=` → `3`, `6`, a line each.

use serde::Deserialize;

use super::{exact, natural};
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// The task's name in run configurations.
pub const NAME: &str = "chain_sum";

/// The most terms of one sum.
pub const MAX_TERMS: i64 = 8;

/// The parameters of [`ChainSum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChainSumConfig {
    /// Digits of every term, 1 to 9. Default 2.
    pub digits: i64,
    /// Number of terms, 2 to [`MAX_TERMS`]. Default 2.
    pub terms: i64,
    /// 1: the solution goes by running sums, and only the last line of a response is judged. Default 0.
    pub steps: i64,
}

impl Default for ChainSumConfig {
    fn default() -> Self {
        Self { digits: 2, terms: 2, steps: 0 }
    }
}

/// Sums of numbers with a fixed number of digits, each uniform. The sum, and nothing else, is
/// right; with steps, any lines may stand before it.
#[derive(Debug)]
pub struct ChainSum {
    config: ChainSumConfig,
}

impl ChainSum {
    /// Checks `digits`, `terms` and `steps`, and builds the task.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn new(config: ChainSumConfig) -> Result<Self, SpecError> {
        spec::within(NAME, "digits", config.digits, natural::DIGITS)?;
        spec::within(NAME, "terms", config.terms, 2..=MAX_TERMS)?;
        spec::within(NAME, "steps", config.steps, 0..=1)?;
        Ok(Self { config })
    }

    fn terms(&self, seed: TaskSeed) -> Vec<i64> {
        let (low, high) = natural::bounds(self.config.digits);
        let mut draws = seed.draws();
        (0..self.config.terms).map(|_| draws.between(low, high)).collect()
    }

    fn sum(&self, seed: TaskSeed) -> String {
        self.terms(seed).iter().sum::<i64>().to_string()
    }

    fn in_steps(&self) -> bool {
        self.config.steps == 1
    }
}

impl Task for ChainSum {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        let terms: Vec<String> = self.terms(seed).iter().map(i64::to_string).collect();
        Prompt { text: format!("{}=", terms.join("+")) }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        let text = match response.text.trim_ascii_end().rsplit_once('\n') {
            Some((_, last)) if self.in_steps() => last,
            _ => response.text,
        };
        Ok(exact::judge(&self.sum(seed), &Response { text, ..*response }))
    }

    fn solution(&self, seed: TaskSeed) -> String {
        if !self.in_steps() {
            return self.sum(seed);
        }
        let mut sum = 0;
        let running = self.terms(seed).into_iter().map(|term| {
            sum += term;
            sum.to_string()
        });
        running.skip(1).collect::<Vec<_>>().join("\n")
    }

    fn longest_prompt(&self) -> usize {
        let digits_and_sign = self.config.digits + 1;
        (self.config.terms * digits_and_sign) as usize
    }

    fn longest_response(&self) -> usize {
        let (_, high) = natural::bounds(self.config.digits);
        let sums =
            if self.in_steps() { 2..=self.config.terms } else { self.config.terms..=self.config.terms };
        let lines = sums.map(|terms| natural::width(terms * high) + 1);
        lines.sum::<usize>() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str, finished: bool) -> (bool, Option<String>) {
        let task = ChainSum::new(ChainSumConfig::default()).unwrap();
        let verdict = task.reward(TaskSeed([1; 32]), &Response { text, finished }).unwrap();
        let miss = verdict.metadata.get("miss").map(|miss| match miss {
            echo_protocol::work::trajectory::MetaValue::Text(code) => code.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(verdict.reward, if verdict.correct { 1.0 } else { 0.0 });
        (verdict.correct, miss)
    }

    #[test]
    fn only_the_sum_is_right() {
        let task = ChainSum::new(ChainSumConfig::default()).unwrap();
        let sum = task.solution(TaskSeed([1; 32]));
        assert_eq!(verdict(&sum, true), (true, None));
        assert_eq!(verdict(&format!("{sum} \n"), true), (true, None));
        assert_eq!(verdict(&sum, false), (false, Some("cut".into())));
        for wrong in
            [format!(" {sum}"), format!("0{sum}"), format!("+{sum}"), format!("{sum}={sum}"), "".into()]
        {
            assert_eq!(verdict(&wrong, true), (false, Some("wrong_answer".into())), "{wrong:?}");
        }
    }

    #[test]
    fn terms_cover_their_range() {
        let task = ChainSum::new(ChainSumConfig { digits: 1, ..ChainSumConfig::default() }).unwrap();
        let seen: std::collections::BTreeSet<i64> =
            (0..100).flat_map(|i| task.terms(TaskSeed([i; 32]))).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    }

    #[test]
    fn the_largest_sum_fits() {
        let task = ChainSum::new(ChainSumConfig { digits: 9, terms: MAX_TERMS, steps: 0 }).unwrap();
        assert_eq!(task.longest_response(), 10);
        assert_eq!(task.prompt(TaskSeed([0; 32])).text.len(), task.longest_prompt());
    }

    #[test]
    fn steps_lead_to_the_last_line_which_alone_is_judged() {
        let task = ChainSum::new(ChainSumConfig { digits: 1, terms: 3, steps: 1 }).unwrap();
        let seed = TaskSeed([1; 32]);
        let terms = task.terms(seed);
        let sum: i64 = terms.iter().sum();
        assert_eq!(task.solution(seed), format!("{}\n{sum}", terms[0] + terms[1]));
        assert_eq!(task.longest_response(), "18\n27".len());
        let right = |text: &str| task.reward(seed, &Response { text, finished: true }).unwrap().correct;
        for text in [task.solution(seed), format!("{sum}"), format!("\n\n{sum}\n"), format!("so\n{sum}")] {
            assert!(right(&text), "{text:?}");
        }
        for text in [format!("{sum}\n0"), format!("{sum}{sum}"), format!("so {sum}"), String::new()] {
            assert!(!right(&text), "{text:?}");
        }
        assert!(ChainSum::new(ChainSumConfig { steps: 2, ..ChainSumConfig::default() }).is_err());
    }
}
