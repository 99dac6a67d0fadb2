//! What goes wrong with devices is an error that says so.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use echo_policy::generation::cuda::{CudaBackend, CudaError, DeviceInfo, MAX_HEAD_DIM, devices, open};
use echo_policy::generation::{Backend, EngineError, Feed, Want};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;

use crate::emulator::Program;
use crate::models::{self, tokens};
use crate::{Emulator, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a call that is refused changes nothing", a_call_that_is_refused_changes_nothing),
    ("out of memory changes nothing", out_of_memory_changes_nothing),
    ("weights that do not fit leave nothing behind", weights_that_do_not_fit_leave_nothing),
    ("a device that fails is lost", a_device_that_fails_is_lost),
    ("what the kernels cannot do is refused", what_the_kernels_cannot_do_is_refused),
    ("a device that is not there or too old is refused", a_device_not_there_or_too_old_is_refused),
];

fn a_call_that_is_refused_changes_nothing(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::one();
    let backend = CudaBackend::load(&device, &model.config, &model.weights, Precision::F32).unwrap();
    let mut cache = backend.new_cache();
    for tokens in [&[][..], &[1, 1201], &[1; 701], &[1; 600]] {
        assert!(backend.forward(&mut [Feed { tokens, cache: &mut cache }], Want::Last).is_err());
        assert_eq!(backend.cached_tokens(&cache), 0);
    }
    let none = backend.forward(&mut [], Want::All).unwrap();
    assert_eq!(none.rows().len(), 0);
}

fn out_of_memory_changes_nothing(program: &Arc<Program>) {
    let model = models::one();
    let (device, emulator) = Emulator::new(program).shared_device();
    let backend = CudaBackend::load(&device, &model.config, &model.weights, Precision::F32).unwrap();
    let (prompt, more) = (tokens(1, 40, &model.config), tokens(2, 100, &model.config));
    let feed = |backend: &CudaBackend, cache: &mut _, tokens: &[u32]| {
        let logits = backend.forward(&mut [Feed { tokens, cache }], Want::Last)?;
        Ok::<_, EngineError>(logits.rows().next().unwrap().to_vec())
    };
    let mut cache = backend.new_cache();
    feed(&backend, &mut cache, &prompt).unwrap();
    let enough = emulator.taken();
    let expected = feed(&backend, &mut cache.clone(), &more).unwrap();

    let tight = Emulator::new(program).with(|emulator| emulator.total = enough + 1000);
    let (device, emulator) = tight.shared_device();
    let backend = CudaBackend::load(&device, &model.config, &model.weights, Precision::F32).unwrap();
    let mut cache = backend.new_cache();
    feed(&backend, &mut cache, &prompt).unwrap();
    for _ in 0..3 {
        let refused = feed(&backend, &mut cache, &more);
        assert!(matches!(refused, Err(EngineError::Memory { wanted, .. }) if wanted > 0), "{refused:?}");
        assert_eq!(backend.cached_tokens(&cache), 40);
        assert!(emulator.taken() <= emulator.total);
    }
    // In small pieces there is room.
    let mut logits = Vec::new();
    for piece in more.chunks(8).take(3) {
        logits = feed(&backend, &mut cache, piece).unwrap();
    }
    assert_eq!(backend.cached_tokens(&cache), 64);
    assert!(logits.iter().all(|logit| logit.is_finite()) && expected.len() == logits.len());
}

fn weights_that_do_not_fit_leave_nothing(program: &Arc<Program>) {
    let model = models::one();
    let (device, emulator) = Emulator::new(program)
        .with(|emulator| emulator.total = model.weights.total_bytes() / 2)
        .shared_device();
    let refused = CudaBackend::load(&device, &model.config, &model.weights, Precision::F32);
    assert!(matches!(refused, Err(EngineError::Memory { .. })));
    assert_eq!((device.used_bytes(), emulator.taken()), (0, 0));
}

fn a_device_that_fails_is_lost(program: &Arc<Program>) {
    let model = models::tiny();
    let mut failed = 0;
    for calls in [0, 3, 60, 85, 100, 120] {
        let (device, emulator) = Emulator::new(program).shared_device();
        emulator.calls_left.store(calls, Ordering::SeqCst);
        let lost = |error: &EngineError| matches!(error, EngineError::DeviceLost { device, why } if device == "emulator" && why.contains("CUDA_ERROR"));
        let backend = match CudaBackend::load(&device, &model.config, &model.weights, Precision::F32) {
            Ok(backend) => backend,
            Err(error) => {
                assert!(lost(&error), "{error}");
                continue;
            }
        };
        let mut cache = backend.new_cache();
        for _ in 0..5 {
            let mut feeds = [Feed { tokens: &[1, 2], cache: &mut cache }];
            if let Err(error) = backend.forward(&mut feeds, Want::Last) {
                assert!(lost(&error), "{error}");
                failed += 1;
            }
        }
        assert_eq!(backend.free_cache_bytes().min(1), 1, "asking changes nothing");
    }
    assert!(failed > 5, "{failed}");
}

fn what_the_kernels_cannot_do_is_refused(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let model = models::tiny();
    let load =
        |config: &_, weights: &_, precision| CudaBackend::load(&device, config, weights, precision).err();
    let error = load(&model.config, &model.weights, Precision::Int8).expect("refused");
    assert!(matches!(error, EngineError::Precision { precision: Precision::Int8, .. }));
    assert_eq!(error.to_string(), "this backend does not compute in int8; choose f32 or bf16");
    let mut wide = model.config.clone();
    wide.head_dim = MAX_HEAD_DIM + 2;
    let error = load(&wide, &Weights::random(&wide, 1), Precision::F32).expect("refused");
    assert!(matches!(error, EngineError::Limit { what: "head_dim", .. }));
    // Weights of another model.
    assert!(load(&models::one().config, &model.weights, Precision::F32).is_some());
}

fn a_device_not_there_or_too_old_is_refused(_: &Arc<Program>) {
    let error = open(1000, None).expect_err("no machine has so many");
    match devices() {
        // Whatever the machine lacks, both say the same.
        Err(lacking) => assert_eq!(error, lacking),
        Ok(found) => assert_eq!(error, CudaError::NoSuchDevice { index: 1000, count: found.len() }),
    }
    let mut info = DeviceInfo {
        index: 0,
        name: "Tesla T4".to_owned(),
        capability: (7, 5),
        total_memory: 16 << 30,
        driver: (12, 4),
    };
    let text = info.check().unwrap_err().to_string();
    assert_eq!(text, "Tesla T4 has compute capability 7.5, and 8.0 is needed; choose another device");
    for capability in [(8, 0), (8, 9), (9, 0), (12, 0)] {
        info.capability = capability;
        assert_eq!(info.check(), Ok(()));
    }
}
