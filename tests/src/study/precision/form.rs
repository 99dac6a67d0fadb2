//! How what is published is made of the optimizer's numbers.

use candle_core::{DType as CandleType, Device, Tensor};
use clap::ValueEnum;
use echo_policy::model::weights::{DType, RawTensor};
use echo_protocol::snapshot::delta::Width;
use echo_protocol::wire::rng::Draws;
use std::fmt;

/// One of so many numbers of a tensor has its error beside it: with 3 to 4 bytes each, that is some
/// 2 % of the bytes of a policy in bf16.
const RESIDUAL_PART: usize = 100;
/// The largest finite number of f16.
const F16_LARGEST: f32 = 65504.0;

/// A form of publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Rounded to the nearest number of bf16: the default of `[snapshot] dtype`.
    Bf16,
    /// Rounded to the nearest number of f16.
    F16,
    /// As they are.
    F32,
    /// To one of the two numbers of bf16 around, by a chance that follows from the version: what is
    /// published is right in the mean.
    Chance,
    /// The same with one draw a number for the whole course: a number is published anew only when it
    /// passes its own threshold.
    Dither,
    /// The nearest number of bf16, and in each tensor the largest errors in bf16 beside it.
    Residual,
}

/// A tensor as it is published.
pub(super) struct PublishedTensor {
    /// What nodes compute with.
    pub(super) values: Vec<f32>,
    /// What the codec of deltas gets.
    pub(super) bytes: Vec<u8>,
    /// Bytes beside those, in each publication anew.
    pub(super) beside: u64,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Bf16, Self::F16, Self::F32, Self::Chance, Self::Dither, Self::Residual];

    fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 | Self::Chance | Self::Dither | Self::Residual => DType::BF16,
        }
    }

    /// Bytes of a number, for the codec of deltas.
    pub(super) fn width(self) -> Width {
        match self {
            Self::F32 => Width::Four,
            _ => Width::Two,
        }
    }

    /// Why weights of this magnitude cannot be published, if they cannot.
    pub(super) fn refusal(self, largest: f32) -> Option<String> {
        let beyond = self == Self::F16 && largest > F16_LARGEST;
        beyond
            .then(|| format!("a weight of magnitude {largest} is beyond f16, whose largest number is 65504"))
    }

    /// Which draws the tensor with this number has in a version.
    fn draws(self, version: u64, tensor: usize) -> Draws {
        let version = if self == Self::Dither { 0 } else { version };
        let mut key = [0; 32];
        key[..8].copy_from_slice(&version.to_le_bytes());
        key[8..16].copy_from_slice(&(tensor as u64).to_le_bytes());
        Draws::new(key)
    }

    /// Publishes the tensor with this number in a version.
    pub(super) fn publish(
        self,
        masters: &[f32],
        version: u64,
        tensor: usize,
    ) -> candle_core::Result<PublishedTensor> {
        let rounded: Vec<f32> = match self {
            Self::F32 => masters.to_vec(),
            Self::F16 => {
                let masters = Tensor::from_slice(masters, masters.len(), &Device::Cpu)?;
                masters.to_dtype(CandleType::F16)?.to_dtype(CandleType::F32)?.to_vec1()?
            }
            Self::Bf16 | Self::Residual => masters.iter().map(|value| nearest(*value)).collect(),
            Self::Chance | Self::Dither => by_chance(masters, &mut self.draws(version, tensor)),
        };
        let bytes = RawTensor::from_f32("", &[rounded.len()], &rounded, self.dtype()).bytes;
        let (values, beside) = match self {
            Self::Residual => with_residual(masters, rounded),
            _ => (rounded, 0),
        };
        Ok(PublishedTensor { values, bytes, beside })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Chance => "chance",
            Self::Dither => "dither",
            Self::Residual => "residual",
        })
    }
}

/// The nearest number of bf16, to even. What is no finite number stays.
fn nearest(value: f32) -> f32 {
    let bits = value.to_bits();
    if !value.is_finite() {
        return value;
    }
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

/// Each number rounded away from zero with the chance of what would be cut off.
fn by_chance(masters: &[f32], draws: &mut Draws) -> Vec<f32> {
    let mut rounded = Vec::with_capacity(masters.len());
    for four in masters.chunks(4) {
        let mut random = draws.next_u64();
        for value in four {
            let bits = value.to_bits().wrapping_add((random & 0xffff) as u32);
            rounded.push(if value.is_finite() { f32::from_bits(bits & 0xffff_0000) } else { *value });
            random >>= 16;
        }
    }
    rounded
}

/// The numbers with their largest errors added, and how many bytes positions and errors take: the
/// distance to the one before as a number of 7 bits a byte, and two bytes of bf16.
fn with_residual(masters: &[f32], mut rounded: Vec<f32>) -> (Vec<f32>, u64) {
    let mut sizes: Vec<f32> = masters.iter().zip(&rounded).map(|(m, r)| (m - r).abs()).collect();
    if sizes.is_empty() {
        return (rounded, 0);
    }
    let kept = (sizes.len() / RESIDUAL_PART).max(1);
    let (_, &mut least, _) = sizes.select_nth_unstable_by(kept - 1, |one, other| other.total_cmp(one));
    let (mut bytes, mut last, mut left) = (0, 0, kept);
    for (at, (value, master)) in rounded.iter_mut().zip(masters).enumerate() {
        let error = master - *value;
        if left > 0 && error != 0.0 && error.abs() >= least {
            *value += nearest(error);
            let distance = (at - last) as u64;
            bytes += u64::from((64 - (distance | 1).leading_zeros()).div_ceil(7)) + 2;
            (last, left) = (at, left - 1);
        }
    }
    (rounded, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of many magnitudes that bf16 does not have.
    fn masters() -> Vec<f32> {
        (1..4000).map(|i| (i as f32 * 0.737).sin() * 10f32.powi(i % 9 - 6)).collect()
    }

    fn error(masters: &[f32], published: &[f32]) -> f64 {
        masters.iter().zip(published).map(|(m, p)| f64::from(m - p).powi(2)).sum()
    }

    #[test]
    fn nearest_is_what_snapshots_have() {
        let masters = masters();
        let tensor = Tensor::from_slice(&masters, masters.len(), &Device::Cpu).unwrap();
        let of_candle = tensor.to_dtype(CandleType::BF16).unwrap().to_dtype(CandleType::F32).unwrap();
        let published = Form::Bf16.publish(&masters, 1, 0).unwrap();
        assert_eq!(published.values, of_candle.to_vec1::<f32>().unwrap());
        assert_eq!(published.bytes.len(), 2 * masters.len());
        assert!(nearest(f32::NAN).is_nan() && nearest(f32::INFINITY) == f32::INFINITY);
    }

    #[test]
    fn chance_is_right_in_the_mean_and_the_same_for_a_version() {
        let masters = vec![1.0 + 1.0 / 512.0; 10_000];
        let published = |form: Form, version| form.publish(&masters, version, 3).unwrap().values;
        let values = published(Form::Chance, 1);
        assert!(values.iter().all(|value| [1.0, 1.0 + 1.0 / 128.0].contains(value)));
        // A quarter of the numbers, with a standard deviation of 0.4 %.
        let up = values.iter().filter(|value| **value > 1.0).count();
        assert!((2300..2700).contains(&up), "{up}");
        assert_eq!(values, published(Form::Chance, 1));
        assert_ne!(values, published(Form::Chance, 2));
        assert_eq!(published(Form::Dither, 1), published(Form::Dither, 2));
        let exact = [0.0, -1.5, 1.0];
        assert_eq!(Form::Chance.publish(&exact, 9, 0).unwrap().values, exact);
    }

    #[test]
    fn the_largest_errors_are_beside() {
        let masters = masters();
        let [plain, residual] =
            [Form::Bf16, Form::Residual].map(|form| form.publish(&masters, 1, 0).unwrap());
        assert_eq!(plain.bytes, residual.bytes);
        let changed = plain.values.iter().zip(&residual.values).filter(|(p, r)| p != r).count();
        assert_eq!(changed, masters.len() / RESIDUAL_PART);
        assert!((3 * changed as u64..=4 * changed as u64).contains(&residual.beside), "{}", residual.beside);
        assert!(error(&masters, &residual.values) < 0.9 * error(&masters, &plain.values));
        assert_eq!(Form::Residual.publish(&[1.0, 2.0], 1, 0).unwrap().beside, 0, "there is no error");
    }

    #[test]
    fn f16_is_nearer_where_it_reaches_and_refused_beyond() {
        let masters: Vec<f32> = masters().into_iter().filter(|value| value.abs() > 1e-3).collect();
        let of = |form: Form| error(&masters, &form.publish(&masters, 1, 0).unwrap().values);
        assert!(of(Form::F16) < of(Form::Bf16) / 10.0);
        assert_eq!(of(Form::F32), 0.0);
        assert!(Form::F16.refusal(7e4).unwrap().contains("65504"));
        assert_eq!((Form::F16.refusal(6e4), Form::Bf16.refusal(7e4)), (None, None));
    }
}
