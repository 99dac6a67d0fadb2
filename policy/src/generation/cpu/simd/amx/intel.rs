//! The unit itself: all that is unsafe of it.

use std::arch::asm;
use std::arch::x86_64::*;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use super::super::{LANES, Line};
use super::{AmxRows, INPUTS, PAIR, Put, Sums, TILE, Tile};

/// Bytes of the inputs of a tile in a row of weights.
const ROW_BYTES: usize = 2 * INPUTS;

/// The processor has the unit and AVX-512 F, and the system lets this process use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amx(());

/// The unit of this thread, ready for products.
pub(crate) struct Unit(PhantomData<*mut ()>);

impl Amx {
    pub(in super::super) fn detect() -> Option<Self> {
        static FOUND: OnceLock<bool> = OnceLock::new();
        let found = || std::is_x86_feature_detected!("avx512f") && is_there() && is_granted();
        FOUND.get_or_init(found).then_some(Self(()))
    }

    /// Makes the unit of this thread ready, which costs as much as a few products, and runs `task` with it.
    ///
    /// Panics within a task on the same thread.
    pub(crate) fn run<T>(self, task: impl FnOnce(&Unit) -> T) -> T {
        /// What the tile registers hold: all of them sixteen lines.
        #[repr(C, align(64))]
        struct Shapes {
            palette: u8,
            start: u8,
            reserved: [u8; 14],
            line_bytes: [u16; 16],
            lines: [u8; 16],
        }
        const REGISTERS: usize = 8;
        let mut shapes =
            Shapes { palette: 1, start: 0, reserved: [0; 14], line_bytes: [0; 16], lines: [0; 16] };
        shapes.line_bytes[..REGISTERS].fill(size_of::<Line>() as u16);
        shapes.lines[..REGISTERS].fill(TILE as u8);
        let unit = Unit::take();
        // SAFETY: the processor has the unit; these are 64 bytes in the form that it wants.
        unsafe {
            asm!(
                "ldtilecfg [{}]",
                in(reg) &raw const shapes,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        task(&unit)
    }

    /// Transposes the lines of up to sixteen tokens, two bf16 staying together; those that are
    /// not there are zeros.
    pub(crate) fn transpose<'a>(self, line_of: impl Fn(usize) -> Option<&'a Line>, tile: &mut Tile) {
        const ZEROS: Line = Line([0.0; LANES]);
        let lines = std::array::from_fn(|token| line_of(token).unwrap_or(&ZEROS));
        // SAFETY: the processor has AVX-512 F.
        unsafe { transpose(lines, tile) };
    }
}

/// Whether the processor has the unit, with products of bf16, and the system keeps its registers.
fn is_there() -> bool {
    const TILE_STATE: u64 = 0b11 << 17;
    const EXTENDED_STATE: u32 = 1 << 27;
    const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & EXTENDED_STATE == 0 {
        return false;
    }
    // SAFETY: the system has switched extended states on, says the processor, and with them this instruction.
    let state = unsafe { _xgetbv(_XCR_XFEATURE_ENABLED_MASK) };
    __cpuid_count(7, 0).edx & BF16_AND_TILES == BF16_AND_TILES && state & TILE_STATE == TILE_STATE
}

/// Asks the system for the memory that it keeps the registers in, for all threads: they are large,
/// so it wants to be asked. It refuses where a thread's stack for signals is too small for them,
/// and from now on refuses such stacks; those of Rust's threads are large enough.
#[cfg(target_os = "linux")]
fn is_granted() -> bool {
    const REQUEST: i64 = 0x1023;
    const TILES: i64 = 18;
    // SAFETY: `arch_prctl` with these takes a number, and touches no memory of the process.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILES) == 0 }
}

/// Nobody has tried it on another system.
#[cfg(not(target_os = "linux"))]
fn is_granted() -> bool {
    false
}

thread_local! {
    /// Whether a task has the unit of this thread.
    static IS_TAKEN: Cell<bool> = const { Cell::new(false) };
}

impl Unit {
    fn take() -> Self {
        assert!(!IS_TAKEN.replace(true), "a thread has one unit");
        Self(PhantomData)
    }

    /// Lines for tokens with lanes for rows, of lines for rows.
    pub(crate) fn transposed(&self, sums: &Tile) -> Tile {
        let mut transposed = [Line::default(); TILE];
        Amx(()).transpose(|row| Some(&sums[row]), &mut transposed);
        transposed
    }

    /// The products of [`PAIR`] rows with the tokens of two tiles, over as many inputs as these are
    /// long; and asks for the memory of `ahead` meanwhile, unless the rows themselves have yet to
    /// be read. Where both tiles are the same, the sums of the second are zeros.
    ///
    /// Panics when a row is shorter than the inputs, or tiles are not equally many.
    pub(crate) fn multiply(&self, rows: AmxRows<'_>, x: [&[Tile]; 2], ahead: &[u8], sums: &mut Sums) {
        let steps = x[0].len();
        assert!(steps > 0 && x[1].len() == steps, "tokens have equally many inputs");
        let holds = |bytes: &[u8], stride: usize| {
            assert!(steps * ROW_BYTES <= stride && stride <= bytes.len() / PAIR, "there are all rows");
        };
        // SAFETY: there are all rows, each of at least `steps` times 64 bytes, and as many tiles of each `x`.
        unsafe {
            match rows {
                AmxRows::Near { bytes, stride } => {
                    holds(bytes, stride);
                    let weights = [bytes.as_ptr(), bytes[TILE * stride..].as_ptr()];
                    side_by_side(weights, stride, ROW_BYTES, x, ahead, sums);
                }
                AmxRows::Far { bytes, stride } => {
                    holds(bytes, stride);
                    for odd in 0..PAIR / TILE {
                        every_other(bytes[odd * stride..].as_ptr(), PAIR / TILE * stride, x, odd, sums);
                    }
                }
                AmxRows::Tiles(tiles) => {
                    assert!(tiles.iter().all(|tiles| tiles.len() == steps), "rows are as long as x");
                    let weights = tiles.map(|tiles| tiles.as_ptr().cast());
                    side_by_side(weights, size_of::<Line>(), size_of::<Tile>(), x, ahead, sums);
                }
            }
        }
    }

    /// Puts sixteen numbers into cells. For other threads these are accesses without order: the
    /// processor splits no number that lies at a multiple of its size.
    pub(crate) fn put(&self, line: &Line, cells: &[AtomicU32; LANES], how: Put) {
        // SAFETY: the processor has AVX-512 F.
        unsafe { put(line, cells, how) };
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: the unit is there; nobody uses its registers any more. What is not in use need
        // not be kept when threads change. The fence is for what was streamed, which others may
        // read from now on.
        unsafe {
            asm!(
                "tilerelease",
                "sfence",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
        IS_TAKEN.set(false);
    }
}

/// The products of two tiles of rows with those of tokens, step by step.
///
/// # Safety
/// The unit is ready. The rows begin at `weights` and every `stride` bytes after; of each, 64
/// bytes can be read every `step` bytes, as often as either `x` has tiles, which are equally
/// many and not none.
unsafe fn side_by_side(
    weights: [*const u8; 2],
    stride: usize,
    step: usize,
    x: [&[Tile]; 2],
    ahead: &[u8],
    sums: &mut Sums,
) {
    let pace = ahead.len().div_ceil(size_of::<Line>()).div_ceil(x[0].len());
    // SAFETY: the caller's promise, and that tiles have sixteen lines: four of them are `sums`.
    // Memory is asked for without being read.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "mov {left}, {pace}",
            "jmp 4f",
            "3:",
            "prefetcht1 [{ahead}]",
            "add {ahead}, 64",
            "dec {left}",
            "4:",
            "test {left}, {left}",
            "jnz 3b",
            "tileloadd tmm4, [{x0} + {line}*1]",
            "tileloadd tmm6, [{w0} + {stride}*1]",
            "tdpbf16ps tmm0, tmm6, tmm4",
            "tileloadd tmm7, [{w1} + {stride}*1]",
            "tdpbf16ps tmm1, tmm7, tmm4",
            "cmp {x0}, {x1}",
            "je 5f",
            "tileloadd tmm5, [{x1} + {line}*1]",
            "tdpbf16ps tmm2, tmm6, tmm5",
            "tdpbf16ps tmm3, tmm7, tmm5",
            "5:",
            "add {x0}, 1024",
            "add {x1}, 1024",
            "add {w0}, {step}",
            "add {w1}, {step}",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{sums} + {line}*1], tmm0",
            "tilestored [{sums} + {line}*1 + 1024], tmm1",
            "tilestored [{sums} + {line}*1 + 2048], tmm2",
            "tilestored [{sums} + {line}*1 + 3072], tmm3",
            x0 = inout(reg) x[0].as_ptr() => _,
            x1 = inout(reg) x[1].as_ptr() => _,
            w0 = inout(reg) weights[0] => _,
            w1 = inout(reg) weights[1] => _,
            stride = in(reg) stride,
            step = in(reg) step,
            line = in(reg) size_of::<Line>(),
            steps = inout(reg) x[0].len() => _,
            ahead = inout(reg) ahead.as_ptr() => _,
            pace = in(reg) pace,
            left = out(reg) _,
            sums = in(reg) sums.as_mut_ptr(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// The products of a tile of rows with those of tokens; their sums are the lines of every other
/// row, from the first or the second on.
///
/// # Safety
/// As for [`side_by_side`], of sixteen rows from `weights` on.
unsafe fn every_other(weights: *const u8, stride: usize, x: [&[Tile]; 2], odd: usize, sums: &mut Sums) {
    let [first, second] = sums.each_mut().map(|sums| sums.as_flattened_mut()[odd..].as_mut_ptr());
    // SAFETY: the caller's promise, and that tiles have sixteen lines: of `sums` every other one.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "2:",
            "tileloadd tmm4, [{x0} + {line}*1]",
            "tileloadd tmm6, [{w} + {stride}*1]",
            "tdpbf16ps tmm0, tmm6, tmm4",
            "cmp {x0}, {x1}",
            "je 3f",
            "tileloadd tmm5, [{x1} + {line}*1]",
            "tdpbf16ps tmm1, tmm6, tmm5",
            "3:",
            "add {x0}, 1024",
            "add {x1}, 1024",
            "add {w}, 64",
            "dec {steps}",
            "jnz 2b",
            "add {line}, {line}",
            "tilestored [{first} + {line}*1], tmm0",
            "tilestored [{second} + {line}*1], tmm1",
            x0 = inout(reg) x[0].as_ptr() => _,
            x1 = inout(reg) x[1].as_ptr() => _,
            w = inout(reg) weights => _,
            stride = in(reg) stride,
            line = inout(reg) size_of::<Line>() => _,
            steps = inout(reg) x[0].len() => _,
            first = in(reg) first,
            second = in(reg) second,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

#[target_feature(enable = "avx512f")]
fn put(line: &Line, cells: &[AtomicU32; LANES], how: Put) {
    let is_aligned = cells.as_ptr().addr().is_multiple_of(size_of::<Line>());
    // SAFETY: there are sixteen cells, and a line is sixteen numbers at a multiple of 64 bytes.
    unsafe {
        let mut numbers = _mm512_load_ps(line.0.as_ptr());
        if how == Put::Add {
            asm!(
                "vaddps {numbers}, {numbers}, [{cells}]",
                numbers = inout(zmm_reg) numbers,
                cells = in(reg) cells,
                options(nostack, preserves_flags, readonly),
            );
        }
        if how == Put::Stream && is_aligned {
            asm!(
                "vmovntps [{cells}], {numbers}",
                numbers = in(zmm_reg) numbers,
                cells = in(reg) cells,
                options(nostack, preserves_flags),
            );
        } else {
            asm!(
                "vmovups [{cells}], {numbers}",
                numbers = in(zmm_reg) numbers,
                cells = in(reg) cells,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Lane i of line j becomes lane j of line i.
#[target_feature(enable = "avx512f")]
fn transpose(lines: [&Line; TILE], transposed: &mut Tile) {
    for (quarter, transposed) in transposed.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        // Of lines r, r + 4, r + 8 and r + 12 four neighbours each.
        let mut rows = [_mm512_setzero_ps(); 4];
        for (r, row) in rows.iter_mut().enumerate() {
            let four = |line: &Line| {
                // SAFETY: four numbers of a line, at a multiple of 16 bytes.
                unsafe { _mm_load_ps(line.0.as_ptr().add(4 * quarter)) }
            };
            let first = _mm512_castps128_ps512(four(lines[r]));
            let second = _mm512_insertf32x4::<1>(first, four(lines[r + 4]));
            let third = _mm512_insertf32x4::<2>(second, four(lines[r + 8]));
            *row = _mm512_insertf32x4::<3>(third, four(lines[r + 12]));
        }
        let [a, b, c, d] = rows;
        let low = [_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d)].map(|row| _mm512_castps_pd(row));
        let high = [_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d)].map(|row| _mm512_castps_pd(row));
        let columns = [
            _mm512_unpacklo_pd(low[0], low[1]),
            _mm512_unpackhi_pd(low[0], low[1]),
            _mm512_unpacklo_pd(high[0], high[1]),
            _mm512_unpackhi_pd(high[0], high[1]),
        ];
        for (line, column) in transposed.iter_mut().zip(columns) {
            // SAFETY: a line is 64 bytes at a multiple of 64.
            unsafe { _mm512_store_ps(line.0.as_mut_ptr(), _mm512_castpd_ps(column)) };
        }
    }
}
