use super::*;
use crate::common::testing;
use crate::config::{ModelSection, PromptSection, TaskEntry, WarmupSection};
use crate::storage::run_dir::RunKeyError;
use echo_policy::text::tokenizer::{TokenizerError, end_tokens};
use echo_protocol::run::prompt::PromptSpec;
use echo_protocol::wire::content_id::ContentId;

fn config(dir: PathBuf) -> RunConfig {
    let mut config = testing::run_config(dir);
    config.network.peers = Some("lists/echo.peers".into());
    config
}

#[test]
fn a_founded_run_is_found_again_and_not_founded_twice() {
    let scratch = tempfile::tempdir().unwrap();
    let config = config(scratch.path().join("run"));
    let founded = found(&config, |_, _| ()).unwrap();
    let (run, key) = (founded.workload.run, founded.key.public());
    drop(founded);
    let again = find(&config.run.dir).unwrap();
    assert_eq!((again.workload.run, again.key.public()), (run, key));
    assert_eq!(overruled(&again.config, &again.workload), [""; 0]);
    drop(again);
    assert!(matches!(found(&config, |_, _| ()), Err(PrepareError::Exists(_))));
    assert!(matches!(find(scratch.path()), Err(PrepareError::NotARun(_))));
}

#[test]
fn names_of_the_hub_are_kept_at_their_commits_and_not_needed_again() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("rows.jsonl");
    fs::write(&rows, r#"{"question": "1+1?", "answer": "2"}"#).unwrap();
    let mut config = config(scratch.path().join("run"));
    config.tasks.push(TaskEntry::new("math"));
    config.data.insert("math".into(), rows.clone());
    let commit = "0".repeat(40);
    let name = format!("hf:o/d@{commit}:main/train");
    let (local, files) = (rows.clone(), Vec::new());
    config.pins.push(Pin { name: name.clone(), commit, local, license: None, files });
    drop(found(&config, |_, _| ()).unwrap());
    fs::remove_file(&rows).unwrap();
    let again = find(&config.run.dir).unwrap();
    assert_eq!(again.config.data["math"], PathBuf::from(&name));
    assert_eq!(again.config.pins, config.pins);
    let mut changed = again.config.clone();
    for (meant, differs) in [(name.as_str(), 0), ("hf:o/d:main/train", 0), ("hf:o/d:main/test", 1)] {
        changed.data.insert("math".into(), meant.into());
        let warned = overruled(&changed, &again.workload);
        assert_eq!(warned.len(), differs, "{meant}: {warned:?}");
        assert!(warned.iter().all(|text| text.starts_with("[data]")), "{warned:?}");
    }
}

#[test]
fn a_changed_setting_that_the_charter_fixes_is_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("rows.jsonl");
    fs::write(&rows, r#"{"question": "1+1?", "answer": "2"}"#).unwrap();
    let mut config = config(scratch.path().join("run"));
    config.tasks.push(TaskEntry::new("math"));
    config.data.insert("math".into(), rows.clone());
    config.admission.precisions.push("int8".to_owned().try_into().unwrap());
    drop(found(&config, |_, _| ()).unwrap());
    let again = find(&config.run.dir).unwrap();
    let warned = |config: &RunConfig| overruled(config, &again.workload);
    assert_eq!(warned(&again.config), [""; 0]);
    type Change = fn(&mut RunConfig);
    let changes: [(&str, Change); 17] = [
        ("[run] name", |c| c.run.name = "other".into()),
        ("[model]", |c| c.model.tiny.as_mut().unwrap().hidden = 32),
        ("[model] chat", |c| c.model.chat = Some(true)),
        ("task", |c| c.tasks[0] = TaskEntry::new("countdown")),
        ("task", |c| c.tasks[0].weight = 3),
        ("task", |c| c.tasks[0].params.extend([("digits".to_owned(), 1)])),
        ("[data]", |c| drop(c.data.remove("math"))),
        ("[sampling] group_size", |c| c.sampling.group_size += 1),
        ("[sampling] temperature", |c| c.sampling.temperature = 0.9),
        ("[sampling] top_p", |c| c.sampling.top_p = 0.9),
        ("[sampling] top_k", |c| c.sampling.top_k = 7),
        ("[sampling] max_new_tokens", |c| c.sampling.max_new_tokens = Some(1)),
        ("[staleness]", |c| c.staleness.period = Some(1)),
        ("[admission] precisions", |c| c.admission.precisions.reverse()),
        ("[admission] precisions", |c| {
            c.admission.precisions.push("bf16".to_owned().try_into().unwrap());
        }),
        ("[snapshot] dtype", |c| c.snapshot.dtype = echo_protocol::snapshot::manifest::TensorType::F32),
        ("[snapshot] chunk_bytes", |c| c.snapshot.chunk_bytes = 16 << 10),
    ];
    for (setting, change) in changes {
        let mut changed = again.config.clone();
        change(&mut changed);
        let warned = warned(&changed);
        assert!(
            warned.len() == 1 && warned[0].starts_with(&format!("{setting} in")),
            "{setting}: {warned:?}"
        );
    }
    let mut shorter = again.config.clone();
    shorter.admission.precisions.truncate(1);
    assert_eq!(warned(&shorter), [""; 0], "what is taken may be narrowed");

    fs::write(&rows, r#"{"question": "2+2?", "answer": "4"}"#).unwrap();
    let edited = warned(&again.config);
    assert!(edited.len() == 1 && edited[0].starts_with("[data]"), "{edited:?}");
    fs::remove_file(&rows).unwrap();
    assert_eq!(warned(&again.config), [""; 0], "the run has its own copy");
}

#[test]
fn a_key_that_is_gone_or_another_is_reported_and_none_is_made() {
    let scratch = tempfile::tempdir().unwrap();
    let config = config(scratch.path().join("run"));
    let dir = found(&config, |_, _| ()).unwrap().dir;
    let kept = fs::read(dir.identity()).unwrap();
    fs::remove_file(dir.identity()).unwrap();
    let gone = find(dir.path()).unwrap_err().to_string();
    assert!(gone.contains("identity is gone") && gone.contains("backup"), "{gone}");
    // As `echo-learner identity` does.
    assert!(matches!(dir.key(), Err(RunKeyError::Gone { .. })));
    assert!(!dir.identity().exists());

    RunDir::new(&scratch.path().join("other")).key().unwrap();
    fs::rename(scratch.path().join("other/identity"), dir.identity()).unwrap();
    let other = find(dir.path()).unwrap_err().to_string();
    assert!(
        other.contains("identity is the key") && other.contains("put the run's own file back"),
        "{other}"
    );
    fs::write(dir.identity(), kept).unwrap();
    find(dir.path()).unwrap();
}

#[test]
fn a_damaged_charter_is_named_with_its_mend() {
    let scratch = tempfile::tempdir().unwrap();
    let config = config(scratch.path().join("run"));
    let dir = found(&config, |_, _| ()).unwrap().dir;
    let whole = fs::read(dir.charter()).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&[][..], &whole[..whole.len() / 2], &flipped] {
        fs::write(dir.charter(), damaged).unwrap();
        let error = find(dir.path()).unwrap_err().to_string();
        let names = error.contains(dir.charter().to_str().unwrap());
        assert!(names && error.contains("restore it from a backup"), "{error}");
    }
    fs::write(dir.charter(), whole).unwrap();
    find(dir.path()).unwrap();
}

#[test]
fn a_tokenizer_of_another_model_is_refused_before_the_warm_up() {
    let scratch = tempfile::tempdir().unwrap();
    let mut config = config(scratch.path().join("run"));
    let policy = found(&config, |_, _| ()).unwrap().dir.start();
    let tokenizer = policy.join("tokenizer.json");
    let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&tokenizer).unwrap()).unwrap();
    // The same characters, with numbers that the model does not know.
    for id in text["model"]["vocab"].as_object_mut().unwrap().values_mut() {
        let old = id.as_u64().unwrap();
        *id = if old < 8 { old } else { old + 500 }.into();
    }
    fs::write(&tokenizer, text.to_string()).unwrap();
    config.run.dir = scratch.path().join("other");
    config.model = ModelSection { path: Some(policy), tiny: None, chat: None };
    config.warmup = Some(WarmupSection { updates: 1, batch: 2, learning_rate: 1e-3, until_accuracy: None });
    let refused = found(&config, |_, _| panic!("a warm-up was begun")).unwrap_err().to_string();
    assert!(refused.contains("do not belong together"), "{refused}");
    assert!(!RunDir::new(&config.run.dir).charter().exists());
}

#[test]
fn a_policy_is_exported_without_a_directory_for_temporary_files() {
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path().join("deep/policy");
    let made = scratch_beside(&target).unwrap();
    assert_eq!(made.path().parent(), target.parent());
    drop(made);
    let (workload, weights) = testing::workload();
    export_policy(&target, &workload, &weights, None).unwrap();
    assert!(target.join("tokenizer.json").exists());
    assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn nobody_else_founds_finds_or_rehearses_in_a_directory_where_a_learner_works() {
    let scratch = tempfile::tempdir().unwrap();
    let mut config = config(scratch.path().join("run"));
    config.warmup = Some(WarmupSection { updates: 1, batch: 2, learning_rate: 1e-3, until_accuracy: None });
    let others = || {
        let chunk = RunDir::new(&config.run.dir).chunks().join("chunk");
        fs::create_dir_all(chunk.parent().unwrap()).unwrap();
        fs::write(&chunk, "served").unwrap();
        assert!(matches!(found(&config, |_, _| ()), Err(PrepareError::Busy(_))));
        assert!(matches!(claim(&config), Err(PrepareError::Busy(_))));
        assert!(chunk.exists());
    };
    // The first of two learners is still in its warm-up.
    let founded = found(&config, |_, _| others()).unwrap();
    others();
    assert!(matches!(find(&config.run.dir), Err(PrepareError::Busy(_))));
    let charter = fs::read(founded.dir.charter()).unwrap();
    assert_eq!(charter, founded.charter.to_bytes(), "it is the first learner's");
    drop(founded);
    find(&config.run.dir).unwrap();
    let nowhere = scratch.path().join("nowhere");
    assert!(matches!(find(&nowhere), Err(PrepareError::NotARun(_))) && !nowhere.exists());
}

#[test]
fn a_run_that_has_lost_its_charter_is_neither_gone_on_with_nor_founded_over() {
    let scratch = tempfile::tempdir().unwrap();
    let config = config(scratch.path().join("run"));
    let dir = RunDir::new(&config.run.dir);
    drop(found(&config, |_, _| ()).unwrap());
    fs::remove_file(dir.charter()).unwrap();
    fs::create_dir_all(dir.checkpoints()).unwrap();
    assert!(matches!(find(dir.path()), Err(PrepareError::NotARun(_))), "it has come to nothing");
    fs::write(dir.checkpoints().join("000000000001"), "a checkpoint").unwrap();
    let gone = find(dir.path()).unwrap_err();
    assert!(matches!(&gone, PrepareError::CharterGone(path) if *path == dir.charter()), "{gone}");
    assert!(matches!(claim(&config), Err(PrepareError::CharterGone(_))));
}

#[test]
fn a_run_whose_audit_has_too_little_memory_is_neither_founded_nor_found() {
    let scratch = tempfile::tempdir().unwrap();
    let mut config = config(scratch.path().join("run"));
    config.admission.precisions.push("int8".to_owned().try_into().unwrap());
    config.admission.max_copy_bytes = 100;
    assert!(matches!(found(&config, |_, _| ()), Err(PrepareError::AuditRoom(_))));
    config.admission.max_copy_bytes = 1 << 20;
    let dir = found(&config, |_, _| ()).unwrap().dir;
    let text = fs::read_to_string(dir.config()).unwrap();
    fs::write(dir.config(), text.replace("max_copy_bytes = 1048576", "max_copy_bytes = 100")).unwrap();
    assert!(matches!(find(dir.path()), Err(PrepareError::AuditRoom(_))));
}

#[test]
fn a_task_made_of_a_file_keeps_it_and_gets_its_alphabet() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("rows.jsonl");
    fs::write(&rows, r#"{"question": "Has Zoë 2?", "answer": "2"}"#).unwrap();
    let mut config = config(scratch.path().join("run"));
    config.tasks = vec![TaskEntry::new("math")];
    let refused = found(&config, |_, _| ()).unwrap_err().to_string();
    assert!(refused.contains("[data]"), "{refused}");
    config.data.insert("math".into(), rows.clone());
    let founded = found(&config, |_, _| ()).unwrap();
    let order = founded.workload.order(echo_protocol::work::order::Purpose::Train, 0);
    let prompt = founded.workload.prompt(&order).unwrap();
    let text = founded.workload.tokenizer.decode(&prompt, false).unwrap();
    assert_eq!(text, "Has Zoë 2?\n");
    drop(founded);

    // What the operator does to the file later is no matter to the run; what is done to the
    // run's own copy is.
    fs::remove_file(&rows).unwrap();
    let again = find(&config.run.dir).unwrap();
    assert_eq!(again.workload.prompt(&order).unwrap(), prompt);
    let kept = companion_files(&again, &again.dir.start());
    assert_eq!(kept.len(), 1);
    drop(again);
    fs::write(&kept[0], "other").unwrap();
    assert!(matches!(find(&config.run.dir), Err(PrepareError::TaskFile(path)) if path == kept[0]));
}

#[test]
fn nodes_get_json_lines_whatever_form_the_rows_have() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("rows.json");
    fs::write(
        &rows,
        "\u{feff}[{\"question\": \"1+1?\", \"answer\": 2},\n {\"question\": \"?\", \"answer\": \"\"}]",
    )
    .unwrap();
    let mut config = config(scratch.path().join("run"));
    config.tasks = vec![TaskEntry::new("math")];
    config.data.insert("math".into(), rows.clone());
    let founded = found(&config, |_, _| ()).unwrap();
    let [kept] = &companion_files(&founded, &founded.dir.start())[..] else { panic!("one file") };
    let lines = fs::read_to_string(kept).unwrap();
    assert_eq!(lines, "{\"question\":\"1+1?\",\"answer\":2}\n{\"question\":\"?\",\"answer\":\"\"}\n");
    assert!(founded.workload.mix.tasks().all(|task| task.remarks()[0].contains("1 of 2 rows are left out")));
    assert_eq!(overruled(&config, &founded.workload), [""; 0], "the file is the one that it was");
}

#[test]
fn a_policy_with_a_chat_template_chats_and_its_nodes_get_the_template() {
    let scratch = tempfile::tempdir().unwrap();
    let tiny = config(scratch.path().join("tiny"));
    let policy = found(&tiny, |_, _| ()).unwrap().dir.start();
    let of_policy = |name: &str, chat: Option<bool>| {
        let model = ModelSection { path: Some(policy.clone()), tiny: None, chat };
        found(&RunConfig { model, ..config(scratch.path().join(name)) }, |_, _| ())
    };
    let tokenizer = |name, chat| of_policy(name, chat).unwrap().workload.charter.tokenizer;
    assert_eq!(tokenizer("plain", None), TokenizerSpec::Snapshot);
    assert!(matches!(of_policy("none", Some(true)), Err(PrepareError::Tokenizer(TokenizerError::NoChat(_)))));

    fs::write(policy.join("chat_template.jinja"), testing::CHAT_TEMPLATE).unwrap();
    assert_eq!(tokenizer("refused", Some(false)), TokenizerSpec::Snapshot);
    let founded = of_policy("chat", None).unwrap();
    assert_eq!(founded.workload.charter.tokenizer, TokenizerSpec::Chat);
    let template = Some("{question}".to_owned());
    assert_eq!(founded.workload.charter.prompt, PromptSpec { template, ..PromptSpec::default() });
    assert_eq!(overruled(&founded.config, &founded.workload), [""; 0]);
    let order = founded.workload.order(echo_protocol::work::order::Purpose::Train, 0);
    let asked = founded.workload.prompt(&order).unwrap();
    let text = founded.workload.assignment(&order).prompt().text;
    assert_eq!(founded.workload.tokenizer.decode(&asked, false).unwrap(), format!("<bos>{text}>"));
    let kept = companion_files(&founded, &founded.dir.start());
    assert!(kept.iter().any(|path| path.ends_with("chat_template.jinja")), "{kept:?}");
    // What the operator does to the policy's directory later is no matter to the run.
    fs::remove_file(policy.join("chat_template.jinja")).unwrap();
    let dir = founded.config.run.dir.clone();
    drop(founded);
    let again = find(&dir).unwrap();
    assert_eq!(again.workload.prompt(&order).unwrap(), asked);
}

#[test]
fn prompts_are_put_as_the_run_file_and_the_models_makers_say() {
    let scratch = tempfile::tempdir().unwrap();
    let policy = found(&config(scratch.path().join("tiny")), |_, _| ()).unwrap().dir.start();
    fs::write(policy.join("chat_template.jinja"), testing::CHAT_TEMPLATE).unwrap();
    // The end token of the tokenizer, another one, and one that the model does not have.
    fs::write(policy.join("generation_config.json"), r#"{"eos_token_id": [2, 7, 9999]}"#).unwrap();
    let of_policy = |name: &str, prompt: PromptSection| {
        let mut config = config(scratch.path().join(name));
        config.sampling.max_new_tokens = Some(8);
        config.model = ModelSection { path: Some(policy.clone()), tiny: None, chat: None };
        RunConfig { prompt, ..config }
    };
    let text = |text: &str| Some(text.to_owned());
    let section = PromptSection {
        system: text("be brief"),
        template: text("q: {question}"),
        answer_tags: true,
        ..PromptSection::default()
    };
    let chats = of_policy("chats", section.clone());
    let founded = found(&chats, |_, _| ()).unwrap();
    let workload = &founded.workload;
    let fixed = PromptSpec { end_tokens: vec![7], ..section.charter() };
    assert_eq!(workload.charter.prompt, fixed);
    let order = workload.order(echo_protocol::work::order::Purpose::Train, 0);
    let question = workload.assignment(&order).prompt().text;
    let asked = workload.prompt(&order).unwrap();
    let shown = workload.tokenizer.decode(&asked, false).unwrap();
    assert_eq!(shown, format!("be brief<eos><bos>q: {question}>"));
    assert_eq!(workload.request(&order, 1).unwrap().stop_ids, [2, 7]);
    assert_eq!((workload.text(&[13, 7]), workload.text(&[13, 2])), ("a".to_owned(), "a".to_owned()));
    assert!(workload.mix.judged_part().answer_tags);
    assert_eq!(end_tokens(&founded.dir.start()).unwrap(), Some(vec![2, 7]));
    drop(founded);

    let again = find(&chats.run.dir).unwrap();
    assert_eq!(again.workload.prompt(&order).unwrap(), asked);
    assert_eq!(overruled(&again.config, &again.workload), [""; 0]);
    let mut changed = again.config.clone();
    changed.prompt.system = text("be kind");
    let warned = overruled(&changed, &again.workload);
    assert!(warned.len() == 1 && warned[0].starts_with("[prompt] system in"), "{warned:?}");
}

#[test]
fn a_template_is_needed_only_by_a_policy_that_chats() {
    let scratch = tempfile::tempdir().unwrap();
    let policy = found(&config(scratch.path().join("tiny")), |_, _| ()).unwrap().dir.start();
    fs::write(policy.join("chat_template.jinja"), "{{").unwrap();
    let path = policy.join("tokenizer_config.json");
    let mut tokenizer: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    tokenizer["add_bos_token"] = true.into();
    fs::write(&path, tokenizer.to_string()).unwrap();
    let founded = |name: &str, prompt: PromptSection| {
        let model = ModelSection { path: Some(policy.clone()), tiny: None, chat: None };
        found(&RunConfig { model, prompt, ..config(scratch.path().join(name)) }, |_, _| ())
    };
    let broken = founded("broken", PromptSection::default()).unwrap_err().to_string();
    assert!(broken.contains("does not parse") && broken.contains("chat = false"), "{broken}");
    let plain = PromptSection { chat: Some(false), ..PromptSection::default() };
    let first = |founded: Founded| {
        let order = founded.workload.order(echo_protocol::work::order::Purpose::Train, 0);
        founded.workload.prompt(&order).unwrap()[0]
    };
    assert_eq!(first(founded("plain", plain.clone()).unwrap()), CharTokenizer::BOS);
    let without = PromptSection { bos: Some(false), ..plain };
    assert_ne!(first(founded("without", without).unwrap()), CharTokenizer::BOS);

    fs::remove_file(policy.join("chat_template.jinja")).unwrap();
    let system = PromptSection { system: Some("be brief".into()), ..PromptSection::default() };
    let refused = founded("system", system).unwrap_err();
    assert!(matches!(refused, PrepareError::Tokenizer(TokenizerError::NoChat(_))), "{refused}");
}

#[test]
fn mistakes_in_naming_files_modules_and_positions_say_what_to_write() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("rows.jsonl");
    let refused = |task: &str, file: Option<&Path>| {
        let mut config = config(scratch.path().join("run"));
        config.tasks = vec![TaskEntry::new(task)];
        config.data.extend(file.map(|file| (task.to_owned(), file.to_owned())));
        found(&config, |_, _| ()).unwrap_err().to_string()
    };
    let missing = refused("math", Some(rows.as_path()));
    assert!(missing.contains("task math") && missing.contains(rows.to_str().unwrap()), "{missing}");

    fs::write(&rows, format!(r#"{{"question": "{}?", "answer": "2"}}"#, "1".repeat(98))).unwrap();
    let long = refused("math", Some(rows.as_path()));
    assert!(long.contains("task math") && long.contains("positions to at least 102"), "{long}");

    for name in ["wasm", "wasm:abcd"] {
        let unnamed = refused(name, None);
        assert!(unnamed.contains(name) && unnamed.contains("wasm = \"FILE.wasm\""), "{unnamed}");
    }
    // Both addresses are named.
    let address = ContentId::of(&fs::read(&rows).unwrap());
    let meant = format!("wasm:{}", ContentId::of(b"another"));
    for name in ["wasm:abcd", meant.as_str()] {
        let other = refused(name, Some(rows.as_path()));
        assert!(other.contains(name) && other.contains(&format!("wasm:{address}:")), "{other}");
    }
    let other = refused("wasm", Some(rows.as_path()));
    assert!(other.contains("no WebAssembly module"), "{other}");
    fs::write(&rows, "(module)").unwrap();
    let text = refused("wasm", Some(rows.as_path()));
    assert!(text.contains("wat2wasm") && text.lines().count() == 1, "{text}");
}

/// The example of the repository.
fn module() -> Vec<u8> {
    wat::parse_str(include_str!("../../../sandbox/verifiers/letter_counting.wat")).unwrap()
}

#[test]
fn the_learner_finds_out_the_address_of_a_module_and_keeps_it() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("task.wasm");
    fs::write(&file, module()).unwrap();
    let address = ContentId::of(&module());
    let name = format!("wasm:{address}");
    let task = |name: &str, data: Option<&Path>| TaskEntry {
        data: data.map(Path::to_owned),
        ..TaskEntry::new(name)
    };
    // Under [data] or in the task's table, by `wasm` alone or with the address, in either place.
    let forms = [
        (task("wasm", None), Some("wasm")),
        (task("wasm", Some(&file)), None),
        (task(&name, None), Some("wasm")),
        (task(&name, None), Some(name.as_str())),
    ];
    for (number, (task, key)) in forms.into_iter().enumerate() {
        let mut config = config(scratch.path().join(format!("run-{number}")));
        config.tasks = vec![task];
        config.data.extend(key.map(|key| (key.to_owned(), file.clone())));
        drop(found(&config, |_, _| ()).unwrap());
        let again = find(&config.run.dir).unwrap();
        let kept = &again.config;
        assert_eq!(kept.tasks[0].name, name, "{number}");
        assert_eq!(kept.task_file(&kept.tasks[0]), Some(file.as_path()), "{number}");
        let spec = &again.workload.charter.tasks[0];
        assert_eq!((spec.name.as_str(), spec.data), ("wasm", Some(address)), "{number}");
        assert_eq!(overruled(kept, &again.workload), [""; 0], "{number}");
    }
}

#[test]
fn a_module_whose_own_solution_is_not_right_founds_no_run() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("task.wasm");
    let sound = include_str!("../../../sandbox/verifiers/letter_counting.wat");
    let generous = sound.replace("(f32.div (f32.const 1)", "(f32.div (f32.const 2)");
    assert_ne!(generous, sound);
    fs::write(&file, wat::parse_str(generous).unwrap()).unwrap();
    let mut config = config(scratch.path().join("run"));
    config.tasks = vec![TaskEntry::new("wasm")];
    config.data.insert("wasm".into(), file);
    let refused = found(&config, |_, _| ()).unwrap_err().to_string();
    assert!(refused.contains("reward 2, outside [0, 1]") && refused.contains("count "), "{refused}");
    assert!(!RunDir::new(&config.run.dir).charter().exists());
}

#[test]
fn problems_may_hold_any_character() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("rows.jsonl");
    let question = "<x> < <pad>?";
    fs::write(&rows, format!(r#"{{"question": "{question}", "answer": "2"}}"#)).unwrap();
    let mut config = config(scratch.path().join("run"));
    config.tasks = vec![TaskEntry::new("math")];
    config.data.insert("math".into(), rows);
    let workload = found(&config, |_, _| ()).unwrap().workload;
    let order = workload.order(echo_protocol::work::order::Purpose::Train, 0);
    let prompt = workload.prompt(&order).unwrap();
    assert_eq!(prompt.len(), question.len() + 1);
    assert_eq!(workload.tokenizer.decode(&prompt, true).unwrap(), format!("{question}\n"));
    assert_eq!(character_vocabulary(&config).unwrap(), workload.model.vocab_size);
}

#[test]
fn relative_paths_mean_the_same_after_a_resume() {
    let scratch = tempfile::tempdir().unwrap();
    let config = config(scratch.path().join("run"));
    found(&config, |_, _| ()).unwrap();
    let expected = std::path::absolute("lists/echo.peers").unwrap();
    assert_eq!(find(&config.run.dir).unwrap().config.network.peers, Some(expected));
}
