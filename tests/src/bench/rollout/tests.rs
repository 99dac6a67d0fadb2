use super::*;
use crate::models::random_weights;

fn rates(figure: f64) -> RaceRates {
    let about = json!({"cache_bytes_per_token": 114_688});
    RaceRates { prefill_tok_s: figure, single_tok_s: figure, group_tok_s: figure, logprob: -1.0, about }
}

fn bench(peers: &[RivalEngine]) -> RolloutBench {
    RolloutBench {
        size: Size::B06,
        peers: peers.to_vec(),
        programs: EnginePrograms { python: "python3".into(), peers: None },
        rounds: 3,
        prompt: 512,
        new: 128,
        samples: 16,
        threads: 2,
        precision: Precision::F32,
    }
}

#[test]
fn our_side_runs_a_task_and_its_numbers_are_those_it_scores() {
    let home = tempfile::tempdir().unwrap();
    let places = random_weights::places(Size::Tiny, home.path());
    random_weights::make(Size::Tiny, &places.0).unwrap();
    let task = RaceTask::new(
        Size::Tiny,
        places,
        [24, 3, 2, rayon::current_num_threads()],
        Precision::Bf16,
        DeviceChoice::Cpu,
    )
    .unwrap();
    assert_eq!((task.prompt.len(), task.given.len(), task.samples()), (24, 3, 2));
    let path = home.path().join("task.json");
    std::fs::write(&path, serde_json::to_string(&task).unwrap()).unwrap();
    let said = run_task(&path).unwrap();
    assert!([said.prefill_tok_s, said.single_tok_s, said.group_tok_s].iter().all(|rate| *rate > 0.0));
    // Near uniform over 512 tokens.
    assert!((said.logprob + 512f64.ln()).abs() < 1.0, "{}", said.logprob);
    assert_eq!((&said.about["threads"], &said.about["precision"]), (&json!(task.threads), &json!("bf16")));
    assert_eq!(said.about["device"]["kind"], "cpu");
}

#[test]
fn a_floor_of_bytes_is_all_of_the_bandwidth() {
    let config = Size::B06.config().unwrap();
    let bytes = 596_049_920.0 * 2.0 + 576.0 * 114_688.0;
    let ceilings = ProcessorCeilings { read_gb_s: 37.0, f32_gflop_s: 235.0 };
    let shares = Shares::of(&config, &bench(&[]), &rates(37e9 / bytes), ceilings);
    assert!((shares.bandwidth - 1.0).abs() < 1e-9);
    // Weights alone are products of two operations each; attention over 512 to 640 tokens adds a tenth.
    let shares = Shares::of(&config, &bench(&[]), &rates(235e9 / (2.0 * 596_049_920.0)), ceilings);
    assert!((1.1..1.12).contains(&shares.group), "{}", shares.group);
    assert!((0.73..0.81).contains(&shares.prefill), "{}", shares.prefill);
}

#[test]
fn medians_are_held_to_the_goals() {
    let bench = bench(&[RivalEngine::Llama]);
    let task =
        RaceTask::new(Size::Tiny, ("m".into(), "g".into()), [8, 2, 2, 1], Precision::F32, DeviceChoice::Cpu)
            .unwrap();
    let race = |llama: f64| Race {
        ceilings: vec![ProcessorCeilings { read_gb_s: 10.0, f32_gflop_s: 100.0 }; 3],
        ours: [30.0, 10.0, 20.0].map(rates).to_vec(),
        peers: BTreeMap::from([(RivalEngine::Llama, vec![rates(llama); 3])]),
        loads: vec![0.0; 3],
    };
    let reported = report(&bench, &task, &race(19.0), &Console::new(true)).unwrap();
    assert!(reported.passed, "{}", reported.json);
    assert_eq!(reported.json["ours"]["group_tok_s"], 20.0);
    assert_eq!(reported.json["goals"].as_array().unwrap().len(), 3);
    assert_eq!(reported.json["ceilings"]["read_gb_s"], 10.0);
    let reported = report(&bench, &task, &race(21.0), &Console::new(true)).unwrap();
    assert!(!reported.passed);
}
