//! A published model as Echo reads it, against llama.cpp on the same file: the tokens of texts, and
//! the log-prob of every token that follows another.
//!
//! llama.cpp rounds activations to 8 bits where weights have few bits. So it is asked twice: for the
//! file as it is, and for the same numbers in f32, where only the order of sums differs.

use super::export::{scores_of, worst};
use super::tell;
use crate::models::smollm2;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use echo_policy::conformance::vectors::VectorReport;
use echo_policy::model::weights::Weights;
use echo_policy::text::tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::json;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The side of llama.cpp.
const LLAMA: &str = include_str!("../../peers/llama_scores.py");
/// Largest |Δ log p| of a token between the same weights in f32. 4e-5 were seen.
const TOLERANCE: f64 = 1e-3;
/// Largest mean |Δ log p| between weights in bf16 and the same in f32. 0.013 were seen.
const ROUNDED: f64 = 0.05;
/// Largest mean |Δ log p| between weights in bf16 and the file as it is. 0.082 were seen.
const AS_IT_IS: f64 = 0.2;

/// Numbers, code, other scripts, signs of several bytes, and a chat.
const TEXTS: [&str; 8] = [
    "What is 12 + 7?",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
     <|im_start|>user\nWhat is 12 + 7?\n<|im_end|>\n<|im_start|>assistant\nThe answer is 19.<|im_end|>",
    "The sum is 1,234.5 dollars.",
    "  Zwölf Äpfel — 東京\n\n\tend",
    "def f(x):\n    return x**2",
    "I'll don't 3rd 2nd x1y22",
    "🙂👍🏽 naïve café",
    "Tom has 11 apples and buys 5 more. Then Tom gives away 9. How many apples does Tom have now?",
];

/// What llama.cpp says, by text.
#[derive(Debug, Deserialize)]
struct Said {
    version: String,
    texts: Vec<Vec<u32>>,
    f32: Vec<Vec<f64>>,
    as_it_is: Vec<Vec<f64>>,
}

/// Gets the model, asks llama.cpp, and compares.
///
/// # Errors
/// When the model cannot be got, or `python` lacks llama-cpp-python.
pub async fn check(python: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let file = smollm2::file(console).await?;
    let dir = smollm2::make(None, console).await?.dir;
    let (model, in_f32) = (smollm2::config()?, smollm2::weights(&file)?);
    let (tokenizer, in_bf16) = (Tokenizer::from_dir(&dir)?, Weights::load_dir(&dir, &model)?);
    let said = ask(python, &file)?;
    let mut report = VectorReport::default();
    ensure!(said.texts.len() == TEXTS.len(), "llama.cpp spoke of {} texts", said.texts.len());
    for (text, theirs) in TEXTS.iter().zip(&said.texts) {
        let ours = tokenizer.encode(text)?;
        if ours == *theirs {
            report.pass();
        } else {
            report.fail(format!("{text:?} is {ours:?}, and for llama.cpp {theirs:?}"));
        }
    }
    let mut figures = Vec::new();
    for (name, forward) in
        ["training", "generation"].into_iter().zip(scores_of(&model, &in_f32, &said.texts)?)
    {
        let worst = worst(&forward, &said.f32);
        report.measure(worst, TOLERANCE, || format!("{name} forward in f32"));
        figures.push((name, worst));
    }
    let [_, rounded] = scores_of(&model, &in_bf16, &said.texts)?;
    for (name, theirs, limit) in
        [("bf16_to_f32", &said.f32, ROUNDED), ("bf16_to_the_file", &said.as_it_is, AS_IT_IS)]
    {
        let mean = mean(&rounded, theirs);
        report.measure(mean, limit, || name.replace('_', " "));
        figures.push((name, mean));
    }
    for (name, figure) in &figures {
        console.say(format!("{name:<18} {figure:.1e} nats"));
    }
    let mut reported = tell(console, &report);
    for (name, figure) in figures {
        reported.json[name] = json!(figure);
    }
    let claim = "tokens and log-probs are llama.cpp's, as far as numbers are rounded";
    reported.json["claims"] = json!([{"claim": claim, "holds": reported.passed}]);
    reported.json["llama_cpp"] = json!(said.version);
    Ok(reported)
}

/// What llama.cpp says of the texts.
fn ask(python: &Path, file: &Path) -> anyhow::Result<Said> {
    let needs = "this needs a Python with llama-cpp-python, whose build takes some minutes and a C++ compiler: \
                 `python3 -m venv llama-venv && llama-venv/bin/pip install llama-cpp-python`, and name it with \
                 --python llama-venv/bin/python";
    let mut child = Command::new(python)
        .args(["-c", LLAMA])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(|| format!("{}: {needs}", python.display()))?;
    let question = json!({"file": file, "texts": TEXTS}).to_string();
    let mut input = child.stdin.take().context("the child has an input")?;
    // One that ends before it reads says itself why.
    let _ = input.write_all(question.as_bytes());
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{} ended with {}; {needs}", python.display(), output.status);
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().context("llama.cpp said nothing")?)?)
}

/// The mean difference; infinite where there is nothing, or not the same number of values.
fn mean(ours: &[Vec<f32>], theirs: &[Vec<f64>]) -> f64 {
    let count = ours.iter().flatten().count();
    if count == 0 || count != theirs.iter().flatten().count() {
        return f64::INFINITY;
    }
    let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
    pairs.map(|(ours, theirs)| (f64::from(*ours) - theirs).abs()).sum::<f64>() / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_all_tokens_and_nothing_agrees_with_nothing() {
        assert_eq!(mean(&[vec![-1.0, -2.0], vec![-3.0]], &[vec![-1.0, -2.0], vec![-6.0]]), 1.0);
        assert_eq!(mean(&[vec![-1.0]], &[vec![-1.0, -2.0]]), f64::INFINITY);
        assert_eq!(mean(&[], &[]), f64::INFINITY);
    }

    #[test]
    fn a_python_without_llama_cpp_says_what_it_needs() {
        let error = ask(Path::new("no-such-python"), Path::new("x.gguf")).unwrap_err().to_string();
        assert!(error.contains("llama-cpp-python") && error.contains("no-such-python"), "{error}");
    }
}
