use super::*;
use crate::settings::{Config, Flags};
use crate::testing;
use echo_policy::generation::device::About;
use std::path::Path;

fn settings(dir: &Path, device: &str) -> Settings {
    let flags = Flags {
        data_dir: Some(dir.to_owned()),
        threads: Some(std::thread::available_parallelism().unwrap().into()),
        device: Some(device.parse().unwrap()),
        ..Flags::default()
    };
    Config::load(&flags, Vec::new()).unwrap().settings
}

fn survey() -> Survey {
    let found = |name: &str, about, precisions: &[Precision], obstacle: Option<&str>| FoundDevice {
        name: name.into(),
        about,
        precisions: precisions.to_vec(),
        obstacle: obstacle.map(str::to_owned),
    };
    let cuda = |index| About::Cuda { index, memory_bytes: 24 << 30, capability: (8, 9), driver: (12, 4) };
    let both = [Precision::F32, Precision::Bf16];
    let software =
        About::Wgpu { index: 0, adapter: "software", api: "Vulkan".into(), driver: "Mesa 22".into() };
    Survey {
        found: vec![
            found("Old Card", cuda(0), &both, Some("too old")),
            found("New Card", cuda(1), &both, None),
            found("llvmpipe", software, &[Precision::F32], None),
            found("CPU", About::Cpu { instructions: "AVX2", cores: 8 }, &Precision::ALL, None),
        ],
        absent: vec!["tpu: never".into()],
    }
}

#[test]
fn every_device_is_listed_with_what_becomes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let of = |device, precision| HardwareReport::of(survey(), &settings(dir.path(), device), precision);
    let report = of("auto", Precision::F32).unwrap();
    let used: Vec<_> = report.devices.iter().map(|listed| listed.used).collect();
    assert_eq!(used, [false, true, false, false]);
    let text = report.devices();
    for expected in [
        "cuda:0: Old Card, 24.0 GiB, compute capability 8.9, driver of CUDA 12.4\n    not used: too old",
        "cuda:1: New Card, 24.0 GiB, compute capability 8.9, driver of CUDA 12.4\n    used: the best for auto that computes in f32",
        "wgpu:0: llvmpipe, software, Vulkan, driver Mesa 22\n    not used: a program that computes on the processor",
        "cpu: CPU, AVX2, 8 cores, of which",
        "not used: only when those before it are lost",
        "tpu: never",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing from {text}");
    }
    let int8 = of("auto", Precision::Int8).unwrap();
    assert!(int8.devices[3].used && int8.devices[1].why.contains("int8 is wanted"), "{}", int8.devices());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        (json["devices"][1]["device"].as_str(), json["devices"][1]["kind"].as_str()),
        (Some("cuda:1"), Some("cuda"))
    );
    let error = of("cuda:0", Precision::F32).unwrap_err().to_string();
    assert!(error.contains("too old") && error.contains("--device"), "{error}");
}

#[test]
fn what_was_measured_is_what_the_first_heartbeat_tells() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path(), "cpu");
    let expect = |device: &str, parameters, response| {
        expected(&settings, device, Precision::F32, parameters, response)
    };
    assert_eq!(expect("CPU", 1000, 10), None);
    let hardware = Hardware { json: false, seconds: 0, size: Size::Tiny };
    let mut report = HardwareReport::take(&settings).unwrap();
    report.measure(&settings, &hardware, &|_| ()).unwrap();
    let rates = report.measured.unwrap();
    let whole = rates.batch_tok_s as f32;
    let near = |found: Option<f32>, wanted: f32| (found.unwrap() / wanted - 1.0).abs() < 1e-3;
    assert!(near(expect("CPU", rates.parameters, 10), whole / 10.0));
    assert!(near(expect("CPU", rates.parameters * 4, 10), whole / 40.0));
    assert_eq!(expect("another", rates.parameters, 10), None);
    assert_eq!(expected(&settings, "CPU", Precision::Bf16, 1000, 10), None);
    let text = rates.to_string();
    assert!(text.contains("CPU, a model of tiny parameters in f32") && text.contains("μ: "), "{text}");
}

#[test]
fn threads_that_no_node_may_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for threads in [0, 100_000] {
        let settings = Settings { threads, ..settings(dir.path(), "cpu") };
        let error = HardwareReport::take(&settings).unwrap_err().to_string();
        assert!(error.starts_with(&format!("threads is {threads}; set it to 1 to ")), "{error}");
    }
}

#[test]
fn who_only_looks_is_told_that_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(&dir.path().join("nothing"), "cpu");
    let hardware = Hardware { json: false, seconds: 0, size: Size::Tiny };
    let said = std::cell::RefCell::new(Vec::new());
    let say = |text: &str| said.borrow_mut().push(text.to_owned());
    HardwareReport::take(&settings).unwrap().measure(&settings, &hardware, &say).unwrap();
    let said = said.into_inner();
    assert!(said.last().unwrap().contains("nothing yet; `echo-node preflight`"), "{said:?}");
    assert!(!settings.data().path().exists());
}

#[test]
fn the_precision_is_that_of_the_run_that_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path(), "cpu");
    settings.precision = Some(Precision::Int4);
    assert_eq!(HardwareReport::take(&settings).unwrap().precision, Precision::Int4);
    charter_file::keep_charter(&settings.data(), &testing::charter()).unwrap();
    assert!(matches!(HardwareReport::take(&settings), Err(HardwareError::Precision(_))));
    settings.precision = None;
    assert_eq!(HardwareReport::take(&settings).unwrap().precision, Precision::F32);
}
