use super::*;
use crate::testing;
use echo_protocol::store::ChunkStore;
use echo_sandbox::isolation::Lack;

#[test]
fn an_order_becomes_the_same_request_everywhere() {
    let workload = testing::workload();
    let tokenizer = workload.tokenizer(&[]).unwrap();
    let request = |counter| workload.request(OrderCounter(counter), &tokenizer).unwrap();
    let (first, again, other) = (request(1), request(1), request(2));
    assert_eq!((&first.prompt, first.seed), (&again.prompt, again.seed));
    assert_ne!(first.seed, other.seed);
    assert_eq!((first.samples, first.params.max_new_tokens), (testing::GROUP, testing::RESPONSE));
    assert_eq!(first.stop_ids, [tokenizer.eos_id().unwrap()]);
    let text = tokenizer.decode(&first.prompt, false).unwrap();
    assert!(text.ends_with('=') && text.contains('+'), "{text}");
}

#[test]
fn the_engine_is_told_how_much_an_environment_says() {
    let heard = |spec| {
        let workload = testing::workload_of(spec);
        let tokenizer = workload.tokenizer(&[]).unwrap();
        workload.request(OrderCounter(0), &tokenizer).unwrap().max_heard
    };
    assert_eq!(heard(TaskSpec::new("chain_sum")), 0);
    assert_eq!(heard(TaskSpec::new("guess_number")), 3 * "higher:".len() as u32);
}

#[test]
fn a_policy_that_chats_reads_messages() {
    let (run, mut charter) = Charter::open(&testing::charter()).unwrap();
    charter.tokenizer = TokenizerSpec::Chat;
    charter.tasks = vec![TaskSpec::new("guess_number")];
    let workload = NodeWorkload::new(run, &charter).unwrap();
    let characters = CharTokenizer::default();
    let mut files = vec![
        ("tokenizer.json".to_owned(), characters.to_huggingface_json().into_bytes()),
        ("tokenizer_config.json".to_owned(), characters.to_huggingface_config().into_bytes()),
    ];
    let without = workload.tokenizer(&files);
    assert!(matches!(without, Err(NodeWorkloadError::Tokenizer(TokenizerError::NoChat(_)))));
    let template = "{% for m in messages %}{{ '<bos>' if m.role == 'user' else '' }}{{ m.content }}{{ '' if m.role == 'user' else '<eos>' }}\
                    {% endfor %}{% if add_generation_prompt %}>{% endif %}";
    files.push(("chat_template.jinja".to_owned(), template.into()));
    let tokenizer = workload.tokenizer(&files).unwrap();

    let request = workload.request(OrderCounter(0), &tokenizer).unwrap();
    let asked = workload.assignment(OrderCounter(0)).unwrap().1.prompt().text;
    assert_eq!(tokenizer.decode(&request.prompt, false).unwrap(), format!("<bos>{asked}>"));
    let heard = tokenizer.heard("higher:").unwrap();
    assert_eq!(tokenizer.decode(&heard, false).unwrap(), "<bos>higher:>");
    assert_eq!(request.max_heard, 3 * heard.len() as u32);
}

#[test]
fn prompts_are_put_and_responses_judged_as_the_charter_says() {
    let (run, mut charter) = Charter::open(&testing::charter()).unwrap();
    charter.prompt = PromptSpec {
        template: Some("say: {question}".into()),
        bos: true,
        end_tokens: vec![7],
        answer_tags: true,
        ..PromptSpec::default()
    };
    let workload = NodeWorkload::new(run, &charter).unwrap();
    let tokenizer = workload.tokenizer(&[]).unwrap();
    let request = workload.request(OrderCounter(0), &tokenizer).unwrap();
    let asked = workload.assignment(OrderCounter(0)).unwrap().1.prompt().text;
    assert_eq!(tokenizer.decode(&request.prompt, false).unwrap(), format!("<bos>say: {asked}"));
    assert_eq!(request.stop_ids, [CharTokenizer::EOS, 7]);
    let suggested = workload.play(OrderCounter(0)).unwrap().suggestion();
    let answer = suggested.strip_prefix("<answer>").unwrap().strip_suffix("</answer>").unwrap();
    let earns = |text: &str| {
        let response = echo_sandbox::task::Response { text, finished: true };
        let step = workload.play(OrderCounter(0)).unwrap().turn(&response, 0).unwrap();
        let echo_sandbox::task::episode::EpisodeStep::Over { verdict, .. } = step else { panic!("{step:?}") };
        verdict.reward
    };
    assert_eq!((earns(&suggested), earns(answer)), (1.0, 0.0));
    assert_eq!(earns(&format!("<think>{answer}?</think> it is {suggested}")), 1.0);

    charter.prompt = PromptSpec { arguments: Some("[]".into()), ..PromptSpec::default() };
    let refused = NodeWorkload::new(run, &charter).unwrap().tokenizer(&[]);
    assert!(matches!(refused, Err(NodeWorkloadError::Tokenizer(TokenizerError::Prompt(_)))));
}

#[test]
fn snapshots_that_contradict_the_charter_are_not_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = testing::snapshot(&ChunkStore::open(dir.path()).unwrap(), 1);
    let workload = testing::workload();
    workload.check(&manifest).unwrap();
    let broken: [fn(&mut Manifest); 6] = [
        |m| m.tensors.truncate(1),
        |m| m.tensors[0].name.push('x'),
        |m| m.tensors[0].shape.reverse(),
        |m| m.tensors[0].dtype = TensorType::Bf16,
        |m| m.tensors.push(m.tensors[0].clone()),
        |m| m.chunk_bytes *= 2,
    ];
    for (case, breaking) in broken.into_iter().enumerate() {
        let mut manifest = manifest.clone();
        breaking(&mut manifest);
        assert!(workload.check(&manifest).is_err(), "case {case} passed");
    }
}

#[test]
fn tasks_made_of_a_file_wait_for_the_snapshot_that_brings_it() {
    let (run, mut charter) = Charter::open(&testing::charter()).unwrap();
    let rows = br#"{"question": "1+1=", "answer": "2"}"#;
    let id = echo_protocol::wire::content_id::ContentId::of(rows);
    charter.tasks = vec![TaskSpec { data: Some(id), ..TaskSpec::new("math") }];
    let workload = NodeWorkload::new(run, &charter).unwrap();
    let tokenizer = workload.tokenizer(&[]).unwrap();
    let request = || workload.request(OrderCounter(0), &tokenizer);
    assert!(matches!(request(), Err(NodeWorkloadError::TasksNotHere)));
    assert!(matches!(workload.build_tasks(&[]), Err(NodeWorkloadError::Tasks(_))));
    let name = task_file_name(&id);
    assert!(workload.needs(&name) && workload.needs("tokenizer.json"));
    workload.build_tasks(&[(name.clone(), rows.to_vec())]).unwrap();
    assert!(
        !workload.needs(&name) && workload.needs("tokenizer.json"),
        "later versions are not asked for it"
    );
    assert_eq!(tokenizer.decode(&request().unwrap().prompt, false).unwrap(), "1+1=\n");

    charter.tasks = vec![TaskSpec::new("chess")];
    assert!(
        matches!(NodeWorkload::new(run, &charter), Err(NodeWorkloadError::Tasks(_))),
        "told before anything is fetched"
    );
}

#[test]
fn what_this_machine_lacks_is_no_matter_of_versions() {
    let lacks = vec![Lack { what: "there is no g++".into(), mend: "apt install g++".into() }];
    let refused = NodeWorkloadError::from(SpecError::Machine { task: "code", lacks });
    assert!(matches!(refused, NodeWorkloadError::Machine(_)));
    let text = refused.to_string();
    assert!(
        ["there is no g++: apt install g++", "--role relay"].iter().all(|part| text.contains(part)),
        "{text}"
    );
    // Tasks that run nothing ask nothing of the machine.
    testing::workload().check_machine().unwrap();
}
