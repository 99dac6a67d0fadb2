//! What a run is, in a few lines at the start of each process that works on it.

use crate::founding::Founded;
use echo_policy::model::config::Family;
use echo_protocol::run::charter::TokenizerSpec;
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::run::tensor_type::TensorType;
use echo_protocol::work::order::Purpose;
use echo_sandbox::task::Task;

/// Bytes that training holds for each parameter whatever the batch: the weight, its gradient and AdamW's two
/// moments, each an f32.
const BYTES_PER_PARAMETER: u64 = 16;
/// The same for the rounded weight, where weights are published in another type.
const BYTES_PER_ROUNDED: u64 = 4;
/// Most characters of a prompt's line that are shown.
const SHOWN_CHARACTERS: usize = 60;

/// The lines, each with its name, aligned.
pub fn of(founded: &Founded) -> String {
    let lines = [
        ("model", model(founded)),
        ("prompts", prompts(founded)),
        ("judged", judged(founded)),
        ("tasks", tasks(founded)),
        ("an update", update(founded)),
        ("longest", longest(founded)),
        ("precisions", precisions(founded)),
        ("memory", memory(founded)),
        ("publication", publication(founded)),
    ];
    let line = |(name, text): (&str, String)| format!("  {name:<13}{text}");
    let all: Vec<String> = lines.into_iter().map(line).collect();
    format!("run {}\n{}", founded.workload.charter.name, all.join("\n"))
}

fn model(founded: &Founded) -> String {
    let model = &founded.workload.model;
    let name = match &founded.config.model.path {
        Some(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        None => "random weights".to_owned(),
    };
    let family = match model.family {
        Family::Qwen3 => "Qwen3",
        Family::Qwen2 => "Qwen2",
        Family::Llama => "Llama",
    };
    let positions = model.max_position_embeddings;
    format!(
        "{name}: {} parameters, family {family}, {positions} positions",
        scaled(model.parameter_count(), "")
    )
}

fn prompts(founded: &Founded) -> String {
    let workload = &founded.workload;
    let form = match workload.charter.tokenizer {
        TokenizerSpec::Chat => "messages of the chat template",
        TokenizerSpec::Snapshot | TokenizerSpec::Characters { .. } => "plain text",
    };
    let order = workload.order(Purpose::Train, 0);
    let asked = workload.assignment(&order).prompt().text;
    let sample = match (workload.tokenizer.prompt_text(&asked), workload.prompt(&order)) {
        (Ok(text), Ok(tokens)) => {
            format!("the first has {} tokens and begins {}", tokens.len(), begin(&text))
        }
        (Err(error), _) => format!("the first cannot be put: {error}"),
        (_, Err(error)) => format!("the first cannot be put: {error}"),
    };
    format!("{form}; {sample}")
}

/// The first line of a text, in quotes.
fn begin(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let shown: String = line.chars().take(SHOWN_CHARACTERS).collect();
    let more = if shown.len() < text.trim().len() { " …" } else { "" };
    format!("{shown:?}{more}")
}

fn judged(founded: &Founded) -> String {
    let part = founded.workload.mix.judged_part();
    let what = match part.answer_tags {
        true => "what stands in the last <answer> … </answer>",
        false => "the whole response",
    };
    format!("{what}, without what comes before </think>")
}

fn tasks(founded: &Founded) -> String {
    let of = |task: &dyn Task| match (task.rows(), task.held_out_rows()) {
        (Some(rows), Some(held_out)) => {
            format!("{}: {rows} rows to train on, {held_out} held out", task.name())
        }
        (Some(rows), None) => format!("{}: {rows} rows to train on", task.name()),
        (None, _) => format!("{}: prompts without end", task.name()),
    };
    founded.workload.mix.tasks().map(of).collect::<Vec<_>>().join("; ")
}

fn update(founded: &Founded) -> String {
    let (groups, responses) =
        (founded.config.train.groups_per_update as u64, u64::from(founded.workload.charter.group_size));
    let all = groups.saturating_mul(responses);
    format!("{groups} groups of {responses} responses = {all}; {} updates", founded.config.run.updates)
}

fn longest(founded: &Founded) -> String {
    let tokens = founded.workload.charter.sampling.max_new_tokens;
    let why = match founded.config.sampling.max_new_tokens {
        Some(_) => "[sampling] max_new_tokens",
        None => "one for each character of the longest answer; [sampling] max_new_tokens sets another length",
    };
    format!("{tokens} tokens in a response: {why}")
}

fn precisions(founded: &Founded) -> String {
    let charter = &founded.workload.charter;
    let nodes: Vec<&str> = charter.precisions.iter().map(PrecisionName::as_str).collect();
    let train = &founded.config.train;
    let compute = serde_json::to_value(train.compute).unwrap_or_default();
    let published = serde_json::to_value(charter.snapshot_type).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "nodes compute in {}; snapshots in {}; training in {} on {}",
        nodes.join(", "),
        text(&published),
        text(&compute),
        train.device
    )
}

fn memory(founded: &Founded) -> String {
    let rounded =
        if founded.workload.charter.snapshot_type == TensorType::F32 { 0 } else { BYTES_PER_ROUNDED };
    let each = BYTES_PER_PARAMETER + rounded;
    let bytes = founded.workload.model.parameter_count().saturating_mul(each);
    let tokens = founded.config.train.micro_batch_tokens;
    format!(
        "{} for weights, gradients and moments; what {tokens} tokens of a micro-batch need comes on top",
        scaled(bytes, "B")
    )
}

fn publication(founded: &Founded) -> String {
    let charter = &founded.workload.charter;
    let bytes = founded.workload.model.parameter_count().saturating_mul(charter.snapshot_type.bytes());
    let period = charter.staleness.period();
    let each = if period == 1 { "each update".to_owned() } else { format!("every {period} updates") };
    format!("{} in full, {each}", scaled(bytes, "B"))
}

/// A number with three digits and a prefix of thousands, such as `135 M` or `1.20 GB`.
fn scaled(number: u64, unit: &str) -> String {
    let (mut value, mut prefix) = (number as f64, "");
    // Below 999.5, because what is above is written as 1000.
    for next in ["k", "M", "G", "T"] {
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1000.0, next);
    }
    let decimals: usize = if prefix.is_empty() || value >= 99.5 {
        0
    } else if value >= 9.95 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {prefix}{unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::founding::found;

    #[test]
    fn a_run_says_what_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let mut config = testing::run_config(scratch.path().join("run"));
        config.prompt.template = Some("q:{question}".into());
        config.prompt.answer_tags = true;
        let founded = found(&config, |_, _| ()).unwrap();
        let text = of(&founded);
        let parameters = founded.workload.model.parameter_count();
        for part in [
            "run test\n  model        random weights: ".to_owned(),
            format!("{} parameters, family Qwen3, 32 positions", scaled(parameters, "")),
            "  prompts      plain text; the first has ".to_owned(),
            " tokens and begins \"q:".to_owned(),
            "  judged       what stands in the last <answer>".to_owned(),
            "  tasks        chain_sum: prompts without end\n".to_owned(),
            "  an update    16 groups of 16 responses = 256; 3 updates\n".to_owned(),
            "tokens in a response: one for each character of the longest answer".to_owned(),
            "  precisions   nodes compute in f32; snapshots in bf16; training in f32 on ".to_owned(),
            format!("  memory       {} for weights", scaled(20 * parameters, "B")),
            format!("  publication  {} in full, every 2 updates", scaled(2 * parameters, "B")),
        ] {
            assert!(text.contains(&part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        for (number, text) in
            [(0, "0 B"), (999, "999 B"), (1_000, "1.00 kB"), (12_345, "12.3 kB"), (999_600, "1.00 MB")]
        {
            assert_eq!(scaled(number, "B"), text);
        }
        assert_eq!((scaled(134_515_008, ""), scaled(7, "")), ("135 M".into(), "7".into()));
    }

    #[test]
    fn only_the_beginning_of_a_prompt_is_shown() {
        assert_eq!(begin("1+1="), "\"1+1=\"");
        assert_eq!(begin("<|im_start|>system\nbe kind"), "\"<|im_start|>system\" …");
        assert!(begin(&"é".repeat(100)).chars().count() <= SHOWN_CHARACTERS + 4);
    }
}
