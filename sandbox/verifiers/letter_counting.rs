//! `letter_counting`: `count b in abcab=` → `2`, the verifier of letter_counting.wat in Rust. It
//! says the same to the bit.
//!
//!     rustup target add wasm32-unknown-unknown
//!     rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib \
//!         -O -C panic=abort -C strip=symbols letter_counting.rs

use std::cell::Cell;

thread_local! {
    /// The distance between the response and the count, when the response is a number.
    static OFF: Cell<Option<u8>> = const { Cell::new(None) };
}

/// An address and a length as one number. The host drops the whole instance after its question,
/// so nothing is freed.
fn text(text: String) -> u64 {
    let bytes = text.into_bytes().leak();
    (bytes.as_ptr() as u64) << 32 | bytes.len() as u64
}

fn letter(byte: u8) -> u8 {
    b'a' + byte % 3
}

fn letters(seed: &[u8; 32]) -> Vec<u8> {
    let length = 4 + usize::from(seed[1] % 6);
    seed[2..2 + length].iter().copied().map(letter).collect()
}

fn count(seed: &[u8; 32]) -> u8 {
    letters(seed).iter().filter(|&&found| found == letter(seed[0])).count() as u8
}

#[unsafe(no_mangle)]
extern "C" fn abi_version() -> i32 {
    1
}

#[unsafe(no_mangle)]
extern "C" fn longest_prompt() -> i32 {
    21
}

#[unsafe(no_mangle)]
extern "C" fn longest_response() -> i32 {
    1
}

#[unsafe(no_mangle)]
extern "C" fn alloc(len: usize) -> *mut u8 {
    vec![0; len].leak().as_mut_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn prompt(seed: &[u8; 32]) -> u64 {
    let letters = String::from_utf8(letters(seed)).expect("letters are ASCII");
    text(format!("count {} in {letters}=", char::from(letter(seed[0]))))
}

#[unsafe(no_mangle)]
extern "C" fn solution(seed: &[u8; 32]) -> u64 {
    text(count(seed).to_string())
}

/// # Safety
/// `response` is the address of `len` bytes of UTF-8, as the host promises.
#[unsafe(no_mangle)]
unsafe extern "C" fn reward(seed: &[u8; 32], response: *const u8, len: usize, finished: i32) -> f32 {
    let response = unsafe { std::slice::from_raw_parts(response, len) };
    let &[digit @ b'0'..=b'9'] = response else { return 0.0 };
    if finished == 0 {
        return 0.0;
    }
    let off = (digit - b'0').abs_diff(count(seed));
    OFF.set(Some(off));
    if off > 1 { 0.0 } else { 1.0 / f32::from(off + 1) }
}

#[unsafe(no_mangle)]
extern "C" fn metadata() -> u64 {
    OFF.get().map_or(0, |off| text(format!("{{\"off\":{off}}}")))
}
