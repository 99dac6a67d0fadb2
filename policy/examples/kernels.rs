//! Compiles the kernels of the CUDA backend as they are shipped: `cargo run -p echo-policy
//! --features nvidia --example kernels -- LIBNVRTC`.
//!
//! LIBNVRTC is the path of `libnvrtc.so.12` of version 12.0, from the Python package
//! `nvidia-cuda-nvrtc-cu12==12.0.140`.

#[path = "../tests/nvidia/nvrtc.rs"]
mod nvrtc;

use std::process::ExitCode;

use echo_policy::generation::cuda::kernels;
use nvrtc::{Form, Nvrtc, PACKAGE, VERSION, text};

fn main() -> ExitCode {
    match compile() {
        Ok(bytes) => {
            println!("{bytes} bytes of kernels");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<usize, String> {
    let path = std::env::args_os().nth(1).ok_or_else(|| format!("name libnvrtc.so.12, of {PACKAGE}"))?;
    let nvrtc = Nvrtc::open(&path)?;
    if nvrtc.version()? != VERSION {
        return Err(format!(
            "NVRTC {:?}, and {VERSION:?} is what drivers of volunteers read",
            nvrtc.version()?
        ));
    }
    // Checked by the machine's own compiler too, which knows more than the one for PTX.
    nvrtc.compile(&kernels::program(), "sm_80", Form::Cubin)?;
    let ptx = text(nvrtc.compile(&kernels::program(), kernels::ARCHITECTURE, Form::Ptx)?);
    let packed = kernels::pack(&ptx).map_err(|error| error.to_string())?;
    let to = kernels::shipped_path();
    std::fs::write(&to, &packed).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(packed.len())
}
