use super::*;
use crate::task::{Miss, Prompt, Task, TaskSeed, first_turn_alone};

/// Answers every turn with `...`, however many there are; ends cut ones unless it is `rude`.
#[derive(Debug)]
struct Talk {
    turns: u32,
    rude: bool,
}

impl Episode for u32 {
    fn hear(&mut self, response: &Response<'_>) -> Result<Reply, TaskError> {
        if !response.finished {
            return Ok(Reply::Ends(Verdict::wrong(Miss::Cut)));
        }
        *self -= 1;
        Ok(if *self == 0 { Reply::Ends(Verdict::right()) } else { Reply::Goes("...".into()) })
    }

    fn suggestion(&self) -> String {
        "yes".into()
    }
}

struct Rude;

impl Episode for Rude {
    fn hear(&mut self, _: &Response<'_>) -> Result<Reply, TaskError> {
        Ok(Reply::Goes("...".into()))
    }

    fn suggestion(&self) -> String {
        "no".into()
    }
}

impl Task for Talk {
    fn name(&self) -> &'static str {
        "talk"
    }
    fn prompt(&self, _: TaskSeed) -> Prompt {
        Prompt { text: "?".into() }
    }
    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        first_turn_alone(self, seed, response)
    }
    fn solution(&self, _: TaskSeed) -> String {
        "yes".into()
    }
    fn episode(&self, _: TaskSeed) -> Box<dyn Episode + '_> {
        if self.rude { Box::new(Rude) } else { Box::new(self.turns) }
    }
    fn max_turns(&self) -> u32 {
        self.turns
    }
    fn longest_prompt(&self) -> usize {
        1
    }
    fn longest_response(&self) -> usize {
        3
    }
}

const SEED: TaskSeed = TaskSeed([0; 32]);
const YES: Response<'_> = Response { text: "yes", finished: true };

fn over(verdict: Verdict, finished: bool) -> EpisodeStep {
    EpisodeStep::Over { verdict, finished }
}

#[test]
fn turns_go_on_to_the_verdict() {
    let task = Talk { turns: 3, rude: false };
    let mut play = Play::new(&task, SEED);
    assert_eq!(play.turn(&YES, 9).unwrap(), EpisodeStep::Heard("...".into()));
    assert_eq!(play.turn(&YES, 1).unwrap(), EpisodeStep::Heard("...".into()));
    assert_eq!(play.turns_left(), 1);
    // The last token may be the one that ends the last turn.
    assert_eq!(play.turn(&YES, 0).unwrap(), over(Verdict::right(), true));
    assert!(play.turn(&YES, 9).is_err(), "there is no fourth");
}

#[test]
fn a_budget_that_is_used_up_cuts_the_episode() {
    let task = Talk { turns: 3, rude: false };
    let cut = || over(Verdict::wrong(Miss::Cut), false);
    assert_eq!(Play::new(&task, SEED).turn(&Response { text: "ye", finished: false }, 0).unwrap(), cut());
    assert_eq!(Play::new(&task, SEED).turn(&YES, 0).unwrap(), cut(), "no token is left for the second turn");
    assert_eq!(task.reward(SEED, &YES).unwrap(), Verdict::wrong(Miss::Cut));
}

#[test]
fn an_environment_hears_what_is_judged() {
    let spec = echo_protocol::run::charter::TaskSpec::new("guess_number");
    let task = crate::tasks::registry::build(&spec, &crate::task::files::TaskFiles::none()).unwrap();
    let play = || Play::new(task.as_ref(), SEED);
    let step = |play: Play<'_>, text: &str| {
        let mut play = play;
        (play.turn(&Response { text, finished: true }, 9).unwrap(), play.turns_left())
    };
    let plain = step(play(), "0");
    assert!(matches!(plain, (EpisodeStep::Heard(_), 3)), "{plain:?}");
    assert_eq!(step(play(), "<think>7?</think>\n\n0"), plain);
    let nothing = || (over(Verdict::wrong(Miss::Malformed), true), 0);
    assert_eq!(step(play(), "<think>0"), nothing(), "the episode ends with its first turn");
    let tags = JudgedPart { answer_tags: true, ..JudgedPart::default() };
    assert_eq!(step(play().judging(tags), "it is <answer>0</answer>"), plain);
    assert_eq!(step(play().judging(tags), "0"), nothing());
    let suggested = play().suggestion();
    assert_eq!(play().judging(tags).suggestion(), format!("<answer>{suggested}</answer>"));
}

#[test]
fn an_environment_out_of_its_bounds_is_nobodys_reward() {
    let rude = Talk { turns: 2, rude: true };
    let cut = Response { text: "yes", finished: false };
    assert!(Play::new(&rude, SEED).turn(&cut, 0).is_err());
    assert!(Play::new(&rude, SEED).turn(&YES, 0).is_err());
    let mut play = Play::new(&rude, SEED);
    assert_eq!(play.turn(&YES, 5).unwrap(), EpisodeStep::Heard("...".into()));
    assert!(play.turn(&YES, 5).is_err(), "it says that it has two turns");
}

#[test]
fn a_task_of_one_turn_needs_no_episode_of_its_own() {
    let spec = echo_protocol::run::charter::TaskSpec::new("chain_sum");
    let task = crate::tasks::registry::build(&spec, &crate::task::files::TaskFiles::none()).unwrap();
    assert_eq!((task.max_turns(), task.longest_heard()), (1, 0));
    for (text, finished) in [(task.solution(SEED).as_str(), true), ("7", true), ("7", false), ("", false)] {
        let response = Response { text, finished };
        let verdict = task.reward(SEED, &response).unwrap();
        for left in [0, 5] {
            let step = Play::new(task.as_ref(), SEED).turn(&response, left).unwrap();
            assert_eq!(step, over(verdict.clone(), finished));
        }
    }
    assert_eq!(Play::new(task.as_ref(), SEED).suggestion(), task.solution(SEED));
}
