//! The shipped kernels are those of the sources, and NVIDIA's compiler takes them for old and new GPUs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use echo_policy::generation::cuda::kernels;
use libtest_mimic::Trial;

use crate::nvrtc::{Form, Nvrtc, PACKAGE, VERSION, text};

type Test = fn(&Nvrtc);

pub(crate) fn trials() -> Vec<Trial> {
    let nvrtc =
        library().map(|path| Arc::new(Nvrtc::open(&path).expect("the library that was named or fetched")));
    let tests: [(&str, Test); 2] = [
        ("the shipped kernels are those of the sources", the_shipped_kernels_are_those_of_the_sources),
        ("the kernels compile for every architecture", the_kernels_compile_for_every_architecture),
    ];
    let compiled = tests.map(|(name, test)| match &nvrtc {
        Some(nvrtc) => {
            let nvrtc = Arc::clone(nvrtc);
            Trial::test(name, move || {
                test(&nvrtc);
                Ok(())
            })
        }
        None => {
            let why = format!("no NVRTC: name it in $ECHO_NVRTC (pip brings it as {PACKAGE})");
            Trial::test(format!("{name}: {why}"), || Ok(())).with_ignored_flag(true)
        }
    });
    let known = Trial::test("the shipped kernels know their sources", || {
        the_shipped_kernels_know_their_sources();
        Ok(())
    });
    [known].into_iter().chain(compiled).collect()
}

/// `$ECHO_NVRTC`, or what the lab fetched.
fn library() -> Option<OsString> {
    if let Some(path) = std::env::var_os("ECHO_NVRTC") {
        return Some(path);
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let path = cache.join("echo-lab/nvrtc-12.0.140/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    path.is_file().then(|| path.into_os_string())
}

fn the_shipped_kernels_know_their_sources() {
    let shipped = kernels::shipped().unwrap();
    let (first, ptx) = shipped.split_once('\n').unwrap();
    let again = "cargo run -p echo-policy --features nvidia --example kernels -- LIBNVRTC makes them anew";
    assert_eq!(first, format!("// {}", kernels::fingerprint()), "the sources were changed: {again}");
    let names: Vec<_> = kernels::names(ptx).collect();
    for kernel in ["embed_f16", "norm_f32", "linear_bf16_8x8", "mma_many", "attend_bf16_8", "draw_tokens"] {
        assert!(names.contains(&kernel), "{kernel} is not among {names:?}");
    }
    // Read by every driver of CUDA 12.
    assert!(ptx.contains("\n.version 8.0\n") && ptx.contains("\n.target sm_80\n"));
}

fn the_shipped_kernels_are_those_of_the_sources(nvrtc: &Nvrtc) {
    let ptx = nvrtc.compile(&kernels::program(), kernels::ARCHITECTURE, Form::Ptx).unwrap();
    // Another version may compile them otherwise.
    if nvrtc.version().unwrap() == VERSION {
        let shipped = kernels::shipped().unwrap();
        assert!(shipped.split_once('\n').unwrap().1 == text(ptx), "the shipped kernels are others");
    }
}

fn the_kernels_compile_for_every_architecture(nvrtc: &Nvrtc) {
    for architecture in ["sm_80", "sm_86", "sm_90"] {
        let made = nvrtc.compile(&kernels::program(), architecture, Form::Cubin).unwrap();
        assert!(made.starts_with(b"\x7fELF"), "{architecture}");
    }
}
