//! Judges a small Python program by two tests, in the sandbox.
//!
//! ```sh
//! cargo run -p echo-sandbox --example judge_a_program
//! ```
//!
//! The program runs in namespaces of its own, without network, and with limits on all that it uses.
//! Expected answers are never in the sandbox with it. Outputs are compared outside.
//! Where programs cannot be isolated, none is run, and the example says what is missing.

use std::error::Error;
use std::sync::Arc;

use echo_sandbox::isolation::{Requirements, Sandbox};
use echo_sandbox::programs::checkers::Checker;
use echo_sandbox::programs::{
    Checking, Judge, JudgeOptions, Language, ProgramVerdict, Submission, Suite, Test,
};
use echo_sandbox::task::files::TaskFiles;

/// Adds two numbers, and forgets about negative ones.
const SOURCE: &str = "\
a, b = map(int, input().split())
print(a + b if a > 0 else 0)
";

fn main() -> Result<(), Box<dyn Error>> {
    // A node asks for control groups. Limits of each process are enough to try this out.
    let requirements = Requirements { rlimits_suffice: true, ..Requirements::default() };
    let sandbox = match Sandbox::open(&requirements) {
        Ok(sandbox) => Arc::new(sandbox),
        Err(unfit) => {
            // It lists everything that is missing, and what to do about it.
            println!("{unfit}");
            return Ok(());
        }
    };
    println!("isolation  {}", sandbox.report());

    let judge = Arc::new(Judge::new(sandbox));
    if let Err(lack) = judge.probe(Language::Python) {
        println!("no Python here: {}: {}", lack.what, lack.mend);
        return Ok(());
    }

    // Inputs and answers are named by their content. Here they lie in memory.
    let mut data = TaskFiles::none();
    let tests = [("2 3\n", "5\n"), ("-1 4\n", "3\n")].map(|(input, answer)| Test {
        input: data.add(input.as_bytes()),
        answer: data.add(answer.as_bytes()),
    });
    // `ncmp` compares sequences of integers, whatever stands between them.
    let suite = Suite::new(tests.to_vec(), Checking::Stock(Checker::Ncmp));
    let submission = Submission { language: Language::Python, source: SOURCE.to_owned() };

    println!("{SOURCE}");
    let mut verdicts = Vec::new();
    for report in Judge::judge(&judge, submission, suite, Arc::new(data), JudgeOptions::default())? {
        let ms = report.cpu_us / 1000;
        println!("test {}  {}, {ms} ms  {}", verdicts.len() + 1, report.verdict, report.message);
        verdicts.push(report.verdict);
    }

    // A failure of ours has no score, so it never becomes a reward.
    let whole = ProgramVerdict::combined(verdicts);
    match whole.score() {
        Some(right) => println!("program {whole}, reward {}", u8::from(right)),
        None => println!("the judging failed: no reward"),
    }
    Ok(())
}
