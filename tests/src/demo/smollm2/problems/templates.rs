//! What word problems are made of: stories with three numbers and two operations.

use super::Row;

/// Who the stories are about.
pub(super) const NAMES: [&str; 10] =
    ["Tom", "Anna", "Ben", "Maria", "Sam", "Lucy", "Omar", "Nina", "Jack", "Eva"];
/// What they have.
pub(super) const THINGS: [&str; 10] =
    ["apples", "pencils", "marbles", "stickers", "cookies", "books", "stamps", "shells", "buttons", "cards"];

/// How every question ends. Only responses that end earn anything: of 800 of the published model 0.77 ended
/// within 32 tokens with these words, and of 256 without them 0.05 (temperature 0.7). They ask for the steps,
/// too. With "Answer with one number in a short sentence." the policy learned to guess a digit: 0.085 right
/// before 64 updates, and 0.104 after.
const ENDING: &str = " Answer in one line, as a sum.";

/// An operation of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Add,
    Subtract,
}

use Operation::{Add, Subtract};

/// A story, whose number c comes to what the first operation makes of a and b.
#[derive(Debug)]
pub(super) struct Template {
    /// With `{name}`, `{thing}`, `{a}`, `{b}` and `{c}`.
    text: &'static str,
    operations: [Operation; 2],
}

/// The stories.
pub(super) static TEMPLATES: [Template; 6] = [
    Template {
        text: "{name} has {a} {thing} and buys {b} more. Then {name} gives away {c}. How many {thing} does {name} have now?",
        operations: [Add, Subtract],
    },
    Template {
        text: "{name} has {a} {thing}. Monday brings {b} more, and Tuesday brings {c} more. How many {thing} does {name} have now?",
        operations: [Add, Add],
    },
    Template {
        text: "There are {a} {thing} in a box. {name} takes out {b} and then puts in {c}. How many {thing} are in the box now?",
        operations: [Subtract, Add],
    },
    Template {
        text: "{name} had {a} {thing}, lost {b} and gave away {c}. How many {thing} are left?",
        operations: [Subtract, Subtract],
    },
    Template {
        text: "{name} finds {a} {thing} in the morning, {b} at noon and {c} in the evening. How many {thing} is that in all?",
        operations: [Add, Add],
    },
    Template {
        text: "A shop has {a} {thing} and gets {b} more. {name} buys {c} of them. How many {thing} does the shop have left?",
        operations: [Add, Subtract],
    },
];

impl Operation {
    fn apply(self, left: i64, right: i64) -> i64 {
        match self {
            Add => left + right,
            Subtract => left - right,
        }
    }

    fn sign(self) -> char {
        match self {
            Add => '+',
            Subtract => '-',
        }
    }
}

impl Template {
    /// Both steps of a problem with these numbers.
    fn steps(&self, [a, b, c]: [i64; 3]) -> [i64; 2] {
        let first = self.operations[0].apply(a, b);
        [first, self.operations[1].apply(first, c)]
    }

    /// The two numbers that each step takes.
    pub(super) fn operands(&self, numbers: [i64; 3]) -> [(i64, i64); 2] {
        let [a, b, c] = numbers;
        [(a, b), (self.steps(numbers)[0], c)]
    }

    /// Whether a story with these numbers can happen: nobody has less than nothing.
    pub(super) fn takes(&self, numbers: [i64; 3]) -> bool {
        self.steps(numbers).iter().all(|step| *step > 0)
    }

    pub(super) fn row(&self, numbers: [i64; 3], name: &str, thing: &str) -> Row {
        let [a, b, c] = numbers;
        let mut question = self.text.replace("{name}", name).replace("{thing}", thing);
        for (mark, number) in [("{a}", a), ("{b}", b), ("{c}", c)] {
            question = question.replace(mark, &number.to_string());
        }
        question.push_str(ENDING);
        let ([first, last], [one, two]) = (self.steps(numbers), self.operations.map(Operation::sign));
        let answer = format!("{a} {one} {b} = {first}\n{first} {two} {c} = {last}\n#### {last}");
        Row { question, answer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_worked_out() {
        let row = TEMPLATES[2].row([5, 3, 4], "Tom", "apples");
        let story = "There are 5 apples in a box. Tom takes out 3 and then puts in 4. How many apples are in the box now?";
        assert_eq!(row.question, format!("{story}{ENDING}"));
        assert_eq!(row.answer, "5 - 3 = 2\n2 + 4 = 6\n#### 6");
    }

    #[test]
    fn stories_that_cannot_happen_are_not_made() {
        let lost_and_gave = &TEMPLATES[3];
        assert!(lost_and_gave.takes([9, 4, 4]));
        assert!(!lost_and_gave.takes([9, 4, 5]) && !lost_and_gave.takes([3, 4, 2]));
    }

    #[test]
    fn every_story_has_all_its_numbers() {
        for template in &TEMPLATES {
            let row = template.row([5, 4, 3], "Eva", "cards");
            assert!(!row.question.contains(['{', '}']), "{row:?}");
            assert_eq!(row.question.matches(|sign: char| sign.is_ascii_digit()).count(), 3, "{row:?}");
        }
    }
}
