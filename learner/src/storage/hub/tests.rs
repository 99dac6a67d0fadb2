use super::testing::{Held, TestHub, is_file, sha256};
use super::*;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CONFIG: &[u8] = b"{\"model_type\": \"qwen3\"}";
const NAME: &str = "hf:o/m";

/// Bytes that lie in the store of large files.
fn weights() -> Vec<u8> {
    (0..50_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn hub_with(files: &[(&str, &[u8])]) -> TestHub {
    let hub = TestHub::start();
    hub.put("models/o/m", Held::of(files));
    hub
}

fn small_model() -> TestHub {
    hub_with(&[
        ("config.json", CONFIG),
        ("tokenizer.json", b"{}"),
        ("model.safetensors", &weights()),
        ("pytorch_model.bin", b"pickle"),
        ("consolidated.safetensors", b"another form"),
        ("README.md", b"# m"),
    ])
}

fn environment(hub: &TestHub, cache: &Path) -> HubEnvironment {
    HubEnvironment { endpoint: hub.endpoint.clone(), cache: cache.to_owned(), token: None, is_offline: false }
}

fn name(text: &str) -> HubName {
    text.parse().unwrap()
}

/// All files of the cache that are not whole.
fn partial(cache: &Path) -> Vec<PathBuf> {
    let blobs = cache.join("models--o--m/blobs");
    let entries = fs::read_dir(blobs).map(|all| all.map(|entry| entry.unwrap().path()).collect());
    let paths: Vec<PathBuf> = entries.unwrap_or_default();
    paths.into_iter().filter(|path| path.extension().is_some()).collect()
}

#[test]
fn the_files_of_a_model_are_got_once_and_pinned() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    hub.state().token = Some("hf_secret");
    let environment = HubEnvironment { token: Some("hf_secret".into()), ..environment(&hub, cache.path()) };
    let pin = model(&environment, &name(NAME)).unwrap();
    let paths: Vec<&str> = pin.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["config.json", "tokenizer.json", "model.safetensors"]);
    assert!(is_file(&pin.local.join("model.safetensors"), &weights()));
    assert_eq!(pin.files[2].sha256, sha256(&weights()));
    assert_eq!(pin.files[0].sha256, sha256(CONFIG));
    assert_eq!(pin.name, format!("{NAME}@{}", pin.commit));
    assert!(pin.is_meant_by(Path::new(NAME)) && pin.is_meant_by(Path::new(&pin.name)));
    assert!(!pin.is_meant_by(Path::new("hf:o/other")));
    // Others that use the cache find it too.
    let branch = fs::read_to_string(cache.path().join("models--o--m/refs/main")).unwrap();
    assert_eq!(branch, pin.commit);
    assert!(!hub.state().has_leaked, "the token went to the store of large files");
    assert!(partial(cache.path()).is_empty());

    // What is pinned is not asked for again.
    hub.state().asked.clear();
    assert_eq!(model(&environment, &name(&pin.name)).unwrap(), pin);
    assert_eq!(hub.asked(""), [""; 0]);
    let offline = HubEnvironment { is_offline: true, ..environment };
    assert_eq!(model(&offline, &name(NAME)).unwrap(), pin);
    assert_eq!(hub.asked(""), [""; 0]);
}

#[test]
fn what_others_have_put_into_the_cache_is_used_offline() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    let environment = environment(&hub, cache.path());
    let pin = model(&environment, &name(NAME)).unwrap();
    fs::remove_dir_all(cache.path().join("models--o--m/echo")).unwrap();
    let offline = HubEnvironment { is_offline: true, ..environment };
    assert_eq!(model(&offline, &name(NAME)).unwrap(), pin);
    let missing = model(&offline, &name("hf:o/other")).unwrap_err();
    assert!(matches!(missing, HubError::Offline { .. }), "{missing}");
    assert!(missing.to_string().contains("HF_HUB_OFFLINE"), "{missing}");
}

#[test]
fn a_connection_that_breaks_is_gone_on_with() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    hub.state().cut = Some(70_000);
    let pin = model(&environment(&hub, cache.path()), &name(NAME)).unwrap();
    assert!(is_file(&pin.local.join("model.safetensors"), &weights()));
    let object = format!("GET /objects/{}", sha256(&weights()));
    let asked = hub.asked(&object);
    assert!(asked.len() == 2 && asked[1].contains("bytes="), "{asked:?}");
    assert!(!asked[1].ends_with("bytes=0-"), "{asked:?}");
    assert!(partial(cache.path()).is_empty());
}

#[test]
fn a_process_that_was_killed_leaves_what_the_next_one_goes_on_with() {
    let whole = weights();
    for is_rangeless in [false, true] {
        let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
        hub.state().is_rangeless = is_rangeless;
        let blobs = cache.path().join("models--o--m/blobs");
        fs::create_dir_all(&blobs).unwrap();
        fs::write(blobs.join(format!("{}.incomplete", sha256(&whole))), &whole[..1234]).unwrap();
        let pin = model(&environment(&hub, cache.path()), &name(NAME)).unwrap();
        assert!(is_file(&pin.local.join("model.safetensors"), &whole));
        assert_eq!(hub.asked(&format!("GET /objects/{} bytes=1234-", sha256(&whole))).len(), 1);
    }
}

#[test]
fn another_part_than_was_asked_for_is_not_put_behind_what_is_there() {
    let (hub, cache, whole) = (small_model(), tempfile::tempdir().unwrap(), weights());
    hub.state().is_shifted = true;
    let blobs = cache.path().join("models--o--m/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(format!("{}.incomplete", sha256(&whole))), &whole[..1234]).unwrap();
    let pin = model(&environment(&hub, cache.path()), &name(NAME)).unwrap();
    assert!(is_file(&pin.local.join("model.safetensors"), &whole));
}

#[test]
fn a_listing_without_an_end_is_given_up() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    hub.state().is_endless = true;
    let refused = model(&environment(&hub, cache.path()), &name(NAME)).unwrap_err();
    assert!(refused.to_string().contains("goes on after 8 pages"), "{refused}");
}

#[test]
fn what_a_hub_calls_its_files_does_not_reach_the_terminal() {
    let (hub, cache) = (TestHub::start(), tempfile::tempdir().unwrap());
    let mut held = Held::of(&[("a.jsonl", b"{}"), ("\u{1b}[2Jb.jsonl", b"{}")]);
    held.card = json!({"configs": [{"config_name": "\u{1b}[31mmain", "data_files": "a.jsonl"}]});
    hub.put("datasets/o/d", held);
    let asked = |text: &str| data(&environment(&hub, cache.path()), &name(text), Ok);
    for text in ["hf:o/d:nothing", "hf:o/d:b.jsonl"] {
        let refused = asked(text).unwrap_err().to_string();
        assert!(refused.contains("main/train") && !refused.contains('\u{1b}'), "{refused:?}");
    }
    assert_eq!(asked("hf:o/d").unwrap().files[0].path, "a.jsonl");
}

#[test]
fn files_that_unpack_to_more_than_a_task_may_have_are_refused_before_the_disk_is_full() {
    let (hub, cache) = (TestHub::start(), tempfile::tempdir().unwrap());
    let files = ["1.parquet", "2.parquet", "3.parquet"].map(|path| (path, path.as_bytes()));
    hub.put("datasets/o/d", Held::of(&files));
    let unpacked = |_: Vec<u8>| -> Result<Vec<u8>, String> { Ok(vec![b'\n'; 40 << 20]) };
    let refused = data(&environment(&hub, cache.path()), &name("hf:o/d"), unpacked).unwrap_err().to_string();
    assert!(refused.contains("64 MiB") && refused.contains("2.parquet"), "{refused}");
}

#[test]
fn damaged_bytes_are_never_used() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    let mut other = weights();
    other[7] ^= 1;
    hub.state().store.insert(sha256(&weights()), other);
    let environment = environment(&hub, cache.path());
    let refused = model(&environment, &name(NAME)).unwrap_err();
    assert!(matches!(&refused, HubError::Damaged { file, .. } if file == "model.safetensors"), "{refused}");
    assert!(partial(cache.path()).is_empty());
    hub.state().store.insert(sha256(&weights()), weights());
    let pin = model(&environment, &name(NAME)).unwrap();
    assert!(is_file(&pin.local.join("model.safetensors"), &weights()));
}

#[test]
fn shards_are_those_of_the_index() {
    let index = br#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    let files: [(&str, &[u8]); 5] = [
        ("config.json", CONFIG),
        ("model.safetensors.index.json", index),
        ("model-1.safetensors", b"1"),
        ("model-2.safetensors", b"2"),
        ("old.safetensors", b"3"),
    ];
    let (hub, cache) = (hub_with(&files), tempfile::tempdir().unwrap());
    let pin = model(&environment(&hub, cache.path()), &name(NAME)).unwrap();
    let paths: Vec<&str> = pin.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        ["config.json", "model.safetensors.index.json", "model-1.safetensors", "model-2.safetensors"]
    );
}

#[test]
fn pickles_adapters_and_what_is_no_model_are_refused_in_words() {
    for (files, word) in [
        (["config.json", "pytorch_model.bin"], "pickles only (pytorch_model.bin)"),
        (["adapter_config.json", "adapter_model.safetensors"], "adapter"),
        (["README.md", "model.gguf"], "no config.json"),
        (["config.json", "model.gguf"], "no model.safetensors"),
    ] {
        let files = files.map(|path| (path, b"x".as_slice()));
        let (hub, cache) = (hub_with(&files), tempfile::tempdir().unwrap());
        let refused = model(&environment(&hub, cache.path()), &name(NAME)).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
        assert_eq!(hub.asked("GET /o/m/resolve"), [""; 0], "nothing of it was got");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    let anybody = environment(&hub, cache.path());
    let refused = |environment: &HubEnvironment, text: &str| {
        let error = model(environment, &name(text)).unwrap_err();
        assert!(!error.to_string().contains("hf_wrong"), "{error}");
        error
    };
    assert!(matches!(refused(&anybody, "hf:o/none"), HubError::Missing { .. }));
    let revision = refused(&anybody, "hf:o/m@v9");
    assert!(matches!(&revision, HubError::Revision { revision, .. } if revision == "v9"), "{revision}");
    let known = HubEnvironment { token: Some("hf_wrong".into()), ..anybody.clone() };
    hub.state().token = Some("hf_right");
    assert!(matches!(refused(&known, NAME), HubError::Token { .. }));
    hub.state().repositories.get_mut("models/o/m").unwrap().is_private = true;
    let private = refused(&anybody, NAME).to_string();
    assert!(private.contains("HF_TOKEN"), "{private}");
    let mut held = Held::of(&[("config.json", CONFIG), ("model.safetensors", b"w")]);
    held.is_gated = true;
    hub.put("models/o/m", held);
    let gated = refused(&anybody, NAME).to_string();
    assert!(gated.contains("accept its terms at") && gated.contains("/o/m,"), "{gated}");
}

#[test]
fn a_hub_that_has_no_time_is_asked_again_when_it_says() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    let environment = environment(&hub, cache.path());
    {
        let mut state = hub.state();
        (state.busy, state.retry_after) = (1, Some("1"));
    }
    let started = Instant::now();
    model(&environment, &name(NAME)).unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1), "it did not wait as it was asked to");
    {
        let mut state = hub.state();
        (state.busy, state.retry_after) = (100, None);
    }
    let refused = model(&environment, &name(NAME)).unwrap_err();
    assert!(matches!(refused, HubError::Busy { .. }), "{refused}");
}

#[test]
fn a_hub_that_is_not_there_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let environment = HubEnvironment {
        endpoint: format!("http://{free}"),
        cache: cache.path().to_owned(),
        token: None,
        is_offline: false,
    };
    let refused = model(&environment, &name(NAME)).unwrap_err().to_string();
    assert!(refused.contains(&free.to_string()), "{refused}");
    let nonsense = HubEnvironment { endpoint: "nowhere".into(), ..environment };
    assert!(matches!(model(&nonsense, &name(NAME)), Err(HubError::Endpoint(_))));
}

#[test]
fn a_split_is_one_file_also_where_it_has_several() {
    let long = "{\"question\": \"2?\"}\n".repeat(100);
    let files: [(&str, &[u8]); 6] = [
        ("data/train-00000-of-00002.jsonl", b"{\"question\": \"1?\"}"),
        ("data/train-00001-of-00002.jsonl", long.as_bytes()),
        ("parts/a.parquet", b"PAR1"),
        ("parts/b.parquet", b"PAR1"),
        ("torn/1.parquet", b"PAR1"),
        ("torn/2.parquet", b"PAR1 and no more"),
    ];
    let (hub, cache) = (TestHub::start(), tempfile::tempdir().unwrap());
    let mut held = Held::of(&files);
    held.card = json!({"license": "mit", "configs": [
        {"config_name": "main", "data_files": [{"split": "train", "path": "data/train-*"}]},
        {"config_name": "parts", "data_files": "parts/*.parquet"},
        {"config_name": "torn", "data_files": ["torn/1.parquet", "torn/2.parquet"]},
    ]});
    hub.put("datasets/o/d", held);
    let environment = environment(&hub, cache.path());
    let data = |text: &str| {
        data(&environment, &name(text), |bytes| match bytes.starts_with(b"PAR1") {
            true if bytes.len() > 4 => Err("it is torn".to_owned()),
            true => Ok(b"{}\n".to_vec()),
            false => Ok(bytes),
        })
    };
    let pin = data("hf:o/d:main/train").unwrap();
    let text = fs::read_to_string(&pin.local).unwrap();
    assert_eq!(text, format!("{{\"question\": \"1?\"}}\n{long}"));
    assert_eq!((pin.files.len(), pin.license.as_deref()), (2, Some("mit")));
    assert_eq!(data(&pin.name).unwrap(), pin);

    let one = data("hf:o/d:parts/a.parquet").unwrap();
    assert!(one.local.ends_with("parts/a.parquet") && is_file(&one.local, b"PAR1"));
    let several = data("hf:o/d:parts").unwrap();
    assert_eq!(fs::read_to_string(&several.local).unwrap(), "{}\n{}\n");
    let torn = data("hf:o/d:torn/train").unwrap_err().to_string();
    assert!(torn.contains("torn/2.parquet cannot be read: it is torn"), "{torn}");
    let wrong = data("hf:o/d:main/test").unwrap_err().to_string();
    assert!(wrong.contains("main/train, parts/train, torn/train"), "{wrong}");
}

#[test]
fn a_policy_is_pushed_and_read_back_and_objects_that_are_there_are_not_sent_again() {
    let (hub, cache) = (TestHub::start(), tempfile::tempdir().unwrap());
    let policy = tempfile::tempdir().unwrap();
    let put = |path: &str, bytes: &[u8]| {
        let source = policy.path().join(path);
        fs::write(&source, bytes).unwrap();
        PushedFile { path: path.to_owned(), source }
    };
    let files = vec![put("config.json", CONFIG), put("model.safetensors", &weights())];
    let card = "---\nlicense: mit\n---\n".to_owned();
    let pushed = PushedPolicy { files, card, is_private: true, message: "v3".to_owned() };
    let anybody = environment(&hub, cache.path());
    let target = name(NAME);
    assert!(matches!(push(&anybody, &target, &pushed), Err(HubError::NoToken(_))));
    hub.state().token = Some("hf_right");
    let known = |token: &str| HubEnvironment { token: Some(token.to_owned()), ..anybody.clone() };
    assert!(matches!(push(&known("hf_wrong"), &target, &pushed), Err(HubError::Token { .. })));

    let address = push(&known("hf_right"), &target, &pushed).unwrap();
    let commit = hub.state().repositories["models/o/m"].commit();
    assert!(address.ends_with(&format!("/o/m/commit/{commit}")), "{address}");
    {
        let state = hub.state();
        let held = &state.repositories["models/o/m"];
        assert!(held.is_private && held.message == "v3");
        assert!(held.files["README.md"].starts_with(b"---\nlicense"));
        assert!(!state.has_leaked, "the token went to the store of large files");
    }
    let pin = model(&known("hf_right"), &target).unwrap();
    assert!(is_file(&pin.local.join("model.safetensors"), &weights()));
    assert!(is_file(&pin.local.join("config.json"), CONFIG));

    push(&known("hf_right"), &target, &pushed).unwrap();
    assert_eq!(hub.asked("PUT").len(), 1, "the weights went once");
    assert_eq!(hub.asked("POST /o/m.git/info/lfs/verify").len(), 1);
    let pinned = push(&known("hf_right"), &name("hf:o/m@v1"), &pushed).unwrap_err();
    assert!(matches!(pinned, HubError::Name { .. }));
}

#[tokio::test]
async fn names_are_got_within_a_runtime_too() {
    let (hub, cache) = (small_model(), tempfile::tempdir().unwrap());
    assert!(model(&environment(&hub, cache.path()), &name(NAME)).is_ok());
}
