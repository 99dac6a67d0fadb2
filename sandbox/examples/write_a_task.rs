//! Writes a task, makes a prompt of a seed, and judges responses to it. The task: how often is a
//! letter in a word?
//!
//! ```sh
//! cargo run -p echo-sandbox --example write_a_task
//! ```
//!
//! Prompt and verdict follow from the seed alone. So nobody sends prompts, and the learner computes
//! every reward again. A run asks for tasks by name, and `tasks::registry` has a row for each name.
//! docs/guides/task-author.md says how to write a task without touching Echo.

use std::error::Error;

use echo_protocol::work::trajectory::MetaValue;
use echo_sandbox::task::{Miss, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

const NAME: &str = "count_letter";

/// `a in banana=` → `3`.
#[derive(Debug)]
struct CountLetter {
    /// Letters of the word.
    length: usize,
}

impl CountLetter {
    /// Letter and word. Everything random comes from the seed's draws.
    fn puzzle(&self, seed: TaskSeed) -> (char, String) {
        let mut draws = seed.draws();
        let mut letter = || *draws.pick(&['a', 'b', 'c', 'd']).unwrap_or(&'a');
        (letter(), (0..self.length).map(|_| letter()).collect())
    }

    fn count(&self, seed: TaskSeed) -> usize {
        let (letter, word) = self.puzzle(seed);
        word.chars().filter(|&other| other == letter).count()
    }
}

impl Task for CountLetter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        let (letter, word) = self.puzzle(seed);
        Prompt { text: format!("{letter} in {word}=") }
    }

    // Responses come from strangers: a bad one is a verdict, and never an error or a panic.
    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        let Some(answer) = response.answer() else { return Ok(Verdict::wrong(Miss::Cut)) };
        let Ok(said) = answer.parse::<u32>() else { return Ok(Verdict::wrong(Miss::Malformed)) };
        let off = i64::from(said) - self.count(seed) as i64;
        if off == 0 {
            return Ok(Verdict::right());
        }
        // What is added here travels with the trajectory, and is shown in metrics.
        let verdict = Verdict::wrong(Miss::WrongAnswer).with("off_by", MetaValue::Integer(off));
        verdict.map_err(|error| TaskError::internal(NAME, error))
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.count(seed).to_string()
    }

    fn longest_prompt(&self) -> usize {
        "a in =".len() + self.length
    }

    fn longest_response(&self) -> usize {
        self.length.to_string().len()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let task = CountLetter { length: 12 };
    // In a run, the work order gives the seed.
    let seed = TaskSeed([7; 32]);
    println!("prompt    {}", task.prompt(seed).text);

    let right = task.solution(seed);
    let wrong = (task.count(seed) + 2).to_string();
    let responses = [
        Response { text: &right, finished: true },
        Response { text: &wrong, finished: true },
        // The beginning of an answer is no answer.
        Response { text: &right, finished: false },
    ];
    for response in responses {
        let Verdict { reward, correct, metadata } = task.reward(seed, &response)?;
        let cut = if response.finished { "" } else { ", cut" };
        println!("response  {}{cut}: reward {reward}, correct {correct}, {metadata:?}", response.text);
    }
    Ok(())
}
