//! The optimizer's numbers beside those that are published, which the trainer has.
//!
//! The trainer steps from the published numbers: what it adds is added to the masters, and the next
//! publication is put in its place. So the gradient of what is published is taken for that of the masters,
//! as [`Trainer::publishing`] does, for forms that the trainer does not know too.

use super::form::{Form, PublishedTensor};
use crate::conformance::delta::CHUNK_BYTES;
use candle_core::Tensor;
use echo_learner::training::trainer::Trainer;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::{DType, RawTensor, Weights};
use echo_policy::training::decoder::Decoder;
use echo_protocol::snapshot::delta::encode;
use rayon::prelude::*;

/// The weights of a policy, tensor by tensor.
pub(super) type Tensors = Vec<Vec<f32>>;

/// The optimizer's numbers, and what was published of them last.
pub(super) struct Masters {
    form: Form,
    values: Tensors,
    published: Tensors,
    /// As the codec of deltas gets them, all tensors one after the other.
    bytes: Vec<u8>,
    version: u64,
}

/// What a publication came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Publication {
    /// Share of the numbers that are others than before.
    pub(super) changed: f64,
    /// Bytes of deltas, of chunks that have none, and of what is beside.
    pub(super) bytes: u64,
}

/// How the way of what is published lies to the way of the masters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Likeness {
    /// Of the angle between both.
    pub(super) cosine: f64,
    /// How far the published policy has come along the masters' way, as a share of it.
    pub(super) carried: f64,
}

/// The values of a decoder's parameters.
pub(super) fn tensors(decoder: &Decoder) -> candle_core::Result<Tensors> {
    decoder.vars().iter().map(|(_, var)| var.flatten_all()?.to_vec1::<f32>()).collect()
}

impl Masters {
    /// Begins with the trainer's weights, and publishes them; the words of a refusal instead.
    pub(super) fn begin(form: Form, trainer: &Trainer) -> anyhow::Result<Result<Self, String>> {
        let values = tensors(trainer.decoder())?;
        if let Some(refusal) = form.refusal(largest(&values)) {
            return Ok(Err(refusal));
        }
        let mut masters = Self { form, values, published: Vec::new(), bytes: Vec::new(), version: 0 };
        let published = masters.form_of_all()?;
        masters.take(published, trainer)?;
        Ok(Ok(masters))
    }

    /// Takes over the step that the trainer made since, and publishes; the words of a refusal instead.
    pub(super) fn publish(&mut self, trainer: &Trainer) -> anyhow::Result<Result<Publication, String>> {
        let after = tensors(trainer.decoder())?;
        self.values.par_iter_mut().zip(&self.published).zip(&after).for_each(|((values, from), to)| {
            values.iter_mut().zip(from).zip(to).for_each(|((value, from), to)| *value += to - from);
        });
        drop(after);
        if let Some(refusal) = self.form.refusal(largest(&self.values)) {
            return Ok(Err(refusal));
        }
        self.version += 1;
        let published = self.form_of_all()?;
        let (old_values, old_bytes) = (std::mem::take(&mut self.published), std::mem::take(&mut self.bytes));
        let beside = self.take(published, trainer)?;
        let numbers: usize = old_values.iter().map(Vec::len).sum();
        let changed: usize = old_values
            .par_iter()
            .zip(&self.published)
            .map(|(old, new)| old.iter().zip(new).filter(|(old, new)| old.to_bits() != new.to_bits()).count())
            .sum();
        let bytes = self.delta_bytes(&old_bytes) + beside;
        Ok(Ok(Publication { changed: changed as f64 / numbers.max(1) as f64, bytes }))
    }

    fn form_of_all(&self) -> candle_core::Result<Vec<PublishedTensor>> {
        let (form, version) = (self.form, self.version);
        self.values.par_iter().enumerate().map(|(at, values)| form.publish(values, version, at)).collect()
    }

    /// Gives the trainer what is published, and keeps it. Returns the bytes beside.
    fn take(&mut self, published: Vec<PublishedTensor>, trainer: &Trainer) -> candle_core::Result<u64> {
        let decoder = trainer.decoder();
        let mut beside = 0;
        self.bytes.clear();
        self.published.clear();
        for (tensor, (_, var)) in published.into_iter().zip(decoder.vars()) {
            var.set(&Tensor::from_slice(&tensor.values, var.dims(), decoder.device())?)?;
            self.bytes.extend_from_slice(&tensor.bytes);
            self.published.push(tensor.values);
            beside += tensor.beside;
        }
        Ok(beside)
    }

    /// Bytes of the chunks that changed, as deltas where there are such.
    fn delta_bytes(&self, old: &[u8]) -> u64 {
        let width = self.form.width();
        let chunks = old.par_chunks(CHUNK_BYTES).zip(self.bytes.par_chunks(CHUNK_BYTES));
        chunks
            .filter(|(old, new)| old != new)
            .map(|(old, new)| encode(old, new, width).map_or(new.len(), |delta| delta.len()) as u64)
            .sum()
    }

    /// Bytes of a publication without deltas.
    pub(super) fn full_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The masters as a policy.
    pub(super) fn to_weights(&self, decoder: &Decoder, config: &ModelConfig) -> anyhow::Result<Weights> {
        let raw = decoder.vars().iter().zip(&self.values);
        let raw = raw.map(|((name, var), values)| RawTensor::from_f32(name, var.dims(), values, DType::F32));
        Ok(Weights::from_raw(config, raw)?)
    }

    /// How the way of what was published since `start` lies to that of the masters; none where either
    /// has not moved.
    pub(super) fn likeness(&self, start: &[Vec<f32>]) -> Option<Likeness> {
        let of_tensor = |((start, master), published): ((&Vec<f32>, &Vec<f32>), &Vec<f32>)| {
            let mut sums = [0.0; 3];
            for ((start, master), published) in start.iter().zip(master).zip(published) {
                let (truly, seen) = (f64::from(master - start), f64::from(published - start));
                sums = [sums[0] + truly * seen, sums[1] + truly * truly, sums[2] + seen * seen];
            }
            sums
        };
        let sums: Vec<[f64; 3]> =
            start.par_iter().zip(&self.values).zip(&self.published).map(of_tensor).collect();
        let [both, truly, seen] =
            sums.iter().fold([0.0; 3], |all: [f64; 3], one| std::array::from_fn(|i| all[i] + one[i]));
        (truly > 0.0 && seen > 0.0)
            .then(|| Likeness { cosine: both / (truly * seen).sqrt(), carried: both / truly })
    }
}

/// The largest magnitude; what is no number counts as endless.
fn largest(tensors: &[Vec<f32>]) -> f32 {
    let of_tensor = |values: &Vec<f32>| {
        values.iter().fold(
            0.0_f32,
            |most, value| {
                if value.is_nan() { f32::INFINITY } else { most.max(value.abs()) }
            },
        )
    };
    tensors.par_iter().map(of_tensor).reduce(|| 0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::precision::policies;
    use echo_learner::config::TrainSection;
    use echo_learner::training::lr_schedule::Schedule;

    #[test]
    fn bf16_goes_the_way_of_the_learners_own_rounding() {
        let practice = policies::tiny().unwrap();
        let start = practice.start().to_dtype(DType::BF16);
        let train = TrainSection { schedule: Schedule::constant(1e-4, 0), ..TrainSection::default() };
        let mut ours = practice.trainer(&start, &train).unwrap();
        let mut theirs = practice.trainer(&start, &train).unwrap().publishing(DType::BF16).unwrap();
        let mut masters = Masters::begin(Form::Bf16, &ours).unwrap().unwrap();
        let before = tensors(ours.decoder()).unwrap();
        let examples: Vec<_> = (0..8)
            .map(|at| echo_learner::training::trainer::example(practice.workload(), at).unwrap())
            .collect();
        for _ in 0..4 {
            ours.imitate(&examples).unwrap();
            theirs.imitate(&examples).unwrap();
            let publication = masters.publish(&ours).unwrap().unwrap();
            assert!(publication.changed > 0.0 && publication.bytes > 0);
            assert!(publication.bytes <= masters.full_bytes());
        }
        let (published, learners) = (tensors(ours.decoder()).unwrap(), tensors(theirs.decoder()).unwrap());
        let pairs = || published.iter().flatten().zip(learners.iter().flatten());
        let differing = pairs().filter(|(one, other)| one != other).count();
        // Sums in another order move a master's last bit, and seldom a number of bf16 with it.
        assert!(differing * 100 < pairs().count(), "{differing} of {}", pairs().count());
        let likeness = masters.likeness(&before).unwrap();
        assert!(likeness.cosine > 0.0 && likeness.cosine < 0.999, "{likeness:?}");
        let own = tensors(theirs.master_weights()).unwrap();
        let square = |of: &[Vec<f32>]| -> f64 {
            let pairs = of.iter().flatten().zip(own.iter().flatten());
            pairs.map(|(one, other)| f64::from(one - other).powi(2)).sum()
        };
        assert!(square(&masters.values) < 1e-3 * square(&before), "the masters go another way");
    }

    #[test]
    fn what_is_no_number_is_beyond_f16() {
        assert_eq!(largest(&[vec![1.0, -3.0], vec![2.0]]), 3.0);
        assert!(Form::F16.refusal(largest(&[vec![f32::NAN, 1.0]])).is_some());
    }
}
