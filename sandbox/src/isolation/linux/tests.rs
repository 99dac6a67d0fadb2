//! Every attack that hostile programs are known for, with the end it must have.

mod attacks;
mod compilers;
mod files;
mod host;
mod ordinary;
mod soak;
mod support;
