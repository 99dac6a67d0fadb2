//! The unit itself: all that is unsafe of it.

use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use super::super::{LANES, Line};
use super::{INPUTS, Put, ROWS, Rows, Sums, TILE, Tile};

/// Bytes of the inputs of a tile in a row of weights.
const ROW_BYTES: usize = 2 * INPUTS;

/// The processor has the unit and AVX-512 F, and the system lets this process use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amx(());

/// The unit, ready for products on this thread until this is dropped. Threads have one each.
pub(crate) struct Unit(PhantomData<*mut ()>);

impl Amx {
    pub(in super::super) fn detect() -> Option<Self> {
        static FOUND: OnceLock<bool> = OnceLock::new();
        let found = || std::is_x86_feature_detected!("avx512f") && is_there() && is_granted();
        FOUND.get_or_init(found).then_some(Self(()))
    }

    /// Makes the unit ready. It costs as much as some products do.
    pub(crate) fn unit(self) -> Unit {
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
        // SAFETY: the processor has the unit; these are 64 bytes in the form that it wants. Nothing else uses its registers.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(nostack, readonly)) };
        Unit(PhantomData)
    }

    /// Transposes lines of bf16 of up to sixteen tokens, two numbers staying together; tokens that are not there are zeros.
    pub(crate) fn transpose<'a>(self, mut line_of: impl FnMut(usize) -> Option<&'a Line>, tile: &mut Tile) {
        const ZEROS: Line = Line([0.0; LANES]);
        let lines = std::array::from_fn(|token| line_of(token).unwrap_or(&ZEROS));
        // SAFETY: the processor has AVX-512 F.
        unsafe { transpose(lines, tile) };
    }

    /// Sets or adds to the first `tokens` of the rows of `y`, `stride` cells apart, what a tile of sums has for them.
    ///
    /// # Panics
    /// When `y` is too short.
    pub(crate) fn put(self, sums: &Tile, y: &[AtomicU32], stride: usize, tokens: usize, how: Put) {
        assert!(
            tokens <= TILE && (tokens == 0 || y.len() >= (tokens - 1) * stride + TILE),
            "y holds all sums"
        );
        let mut transposed = [Line::default(); TILE];
        self.transpose(|row| Some(&sums[row]), &mut transposed);
        for (token, line) in transposed.iter().take(tokens).enumerate() {
            let Some(cells) = y[token * stride..].first_chunk() else { return };
            // SAFETY: the processor has AVX-512 F.
            unsafe { put(line, cells, how) };
        }
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
    let (low, high): (u32, u32);
    // SAFETY: the system has switched extended states on, says the processor, and with them this instruction, which only reads.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    let state = u64::from(high) << 32 | u64::from(low);
    __cpuid_count(7, 0).edx & BF16_AND_TILES == BF16_AND_TILES && state & TILE_STATE == TILE_STATE
}

/// Asks the system for the memory that it keeps the registers in: they are large, so it asks who wants them to say so.
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

impl Unit {
    /// The products of [`ROWS`] rows with the tokens of B tiles, over as many inputs as the tiles are long; and asks for the memory of `ahead` meanwhile.
    ///
    /// # Panics
    /// When a row is shorter than the inputs, or tiles are not equally many.
    pub(crate) fn multiply<const B: usize>(
        &self,
        rows: Rows<'_>,
        x: [&[Tile]; B],
        ahead: &[u8],
        sums: &mut Sums<B>,
    ) {
        const { assert!(B == 1 || B == 2) };
        let steps = x[0].len();
        assert!(steps > 0 && x.iter().all(|x| x.len() == steps), "tokens have equally many inputs");
        let (weights, second, stride, step) = match rows {
            Rows::Stored { bytes, stride } => {
                assert!(steps * ROW_BYTES <= stride && ROWS * stride <= bytes.len(), "there are all rows");
                let second = bytes[TILE * stride..].as_ptr();
                (bytes.as_ptr(), second, stride, ROW_BYTES)
            }
            Rows::Tiles(tiles) => {
                assert!(tiles.iter().all(|tiles| tiles.len() == steps), "rows are as long as x");
                let [first, second] = tiles.map(|tiles| tiles.as_ptr().cast());
                (first, second, size_of::<Line>(), size_of::<Tile>())
            }
        };
        let pace = ahead.len().div_ceil(size_of::<Line>()).div_ceil(steps);
        // SAFETY: the unit is ready, with tiles of sixteen lines. Of each of 32 rows the first `steps` times 64 bytes are read, of `x` all
        // tiles, and all tiles of `sums` are written. Memory is asked for without being read.
        unsafe {
            if B == 2 {
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
                    "tdpbf16ps tmm2, tmm7, tmm4",
                    "tileloadd tmm5, [{x1} + {line}*1]",
                    "tdpbf16ps tmm1, tmm6, tmm5",
                    "tdpbf16ps tmm3, tmm7, tmm5",
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
                    x1 = inout(reg) x[B - 1].as_ptr() => _,
                    w0 = inout(reg) weights => _,
                    w1 = inout(reg) second => _,
                    stride = in(reg) stride,
                    step = in(reg) step,
                    line = in(reg) size_of::<Line>(),
                    steps = inout(reg) steps => _,
                    ahead = inout(reg) ahead.as_ptr() => _,
                    pace = in(reg) pace,
                    left = out(reg) _,
                    sums = in(reg) sums.as_mut_ptr(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            } else {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm2",
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
                    "tdpbf16ps tmm2, tmm7, tmm4",
                    "add {x0}, 1024",
                    "add {w0}, {step}",
                    "add {w1}, {step}",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{sums} + {line}*1], tmm0",
                    "tilestored [{sums} + {line}*1 + 1024], tmm2",
                    x0 = inout(reg) x[0].as_ptr() => _,
                    w0 = inout(reg) weights => _,
                    w1 = inout(reg) second => _,
                    stride = in(reg) stride,
                    step = in(reg) step,
                    line = in(reg) size_of::<Line>(),
                    steps = inout(reg) steps => _,
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
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: the unit is there; nobody uses its registers any more. What is not in use need not be kept when threads change. The fence is
        // for what was streamed, which others may read from now on.
        unsafe { asm!("tilerelease", "sfence", options(nostack, preserves_flags)) };
    }
}

/// Sets cells, or adds to them. For other threads these are sixteen accesses without order: the processor splits no number that lies at a multiple
/// of its size.
#[target_feature(enable = "avx512f")]
fn put(line: &Line, cells: &[AtomicU32; LANES], how: Put) {
    // SAFETY: there are sixteen cells, and a line is sixteen numbers.
    unsafe {
        if how == Put::Add {
            asm!(
                "vmovups {line}, [{from}]",
                "vaddps {line}, {line}, [{to}]",
                "vmovups [{to}], {line}",
                line = out(zmm_reg) _,
                from = in(reg) line,
                to = in(reg) cells,
                options(nostack, preserves_flags),
            );
        } else if how == Put::Stream && cells.as_ptr().addr().is_multiple_of(size_of::<Line>()) {
            asm!(
                "vmovups {line}, [{from}]",
                "vmovntps [{to}], {line}",
                line = out(zmm_reg) _,
                from = in(reg) line,
                to = in(reg) cells,
                options(nostack, preserves_flags),
            );
        } else {
            asm!(
                "vmovups {line}, [{from}]",
                "vmovups [{to}], {line}",
                line = out(zmm_reg) _,
                from = in(reg) line,
                to = in(reg) cells,
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
