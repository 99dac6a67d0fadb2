//! An objective's input after validation, with the host copies that constants and figures are computed from.

use candle_core::{DType, Device, Tensor};

use super::{ObjectiveError, ObjectiveInput};

/// A validated input: shapes agree, and every value that counts is finite.
///
/// The host copies are f64 and row-major `[N, T]`, whatever the dtype and device of the tensors.
pub(crate) struct Checked<'a> {
    pub(crate) input: &'a ObjectiveInput,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// `[N, T]` u8: one where a token is trained on.
    pub(crate) keep: Tensor,
    /// The same on the host.
    pub(crate) trained: Vec<bool>,
    /// Trained tokens of each response.
    pub(crate) lengths: Vec<usize>,
    pub(crate) logp: Vec<f64>,
    pub(crate) behaviour: Vec<f64>,
    pub(crate) proximal: Option<Vec<f64>>,
    pub(crate) advantages: Vec<f64>,
}

impl<'a> Checked<'a> {
    pub(crate) fn new(input: &'a ObjectiveInput) -> Result<Self, ObjectiveError> {
        let dims = input.logp.dims();
        let &[rows, cols] = dims else {
            return Err(ObjectiveError::Shape { what: "logp", found: dims.to_vec(), expected: vec![0, 0] });
        };
        if rows == 0 || cols == 0 {
            return Err(ObjectiveError::Empty { found: dims.to_vec() });
        }
        if !matches!(input.logp.dtype(), DType::F32 | DType::F64) {
            return Err(ObjectiveError::Dtype { found: input.logp.dtype().as_str() });
        }
        expect_shape("behaviour_logp", input.behaviour_logp.dims(), dims)?;
        expect_shape("mask", input.mask.dims(), dims)?;
        expect_shape("advantages", input.advantages.dims(), &[rows])?;
        expect_shape("groups", &[input.groups.len()], &[rows])?;

        let keep = input.mask.ne(0f64)?;
        let trained: Vec<bool> = keep.flatten_all()?.to_vec1::<u8>()?.into_iter().map(|k| k != 0).collect();
        let lengths = trained.chunks(cols).map(|row| row.iter().filter(|&&k| k).count()).collect();
        let of_tokens = |what, tensor: &Tensor| -> Result<Vec<f64>, ObjectiveError> {
            expect_shape(what, tensor.dims(), dims)?;
            let values = host(tensor)?;
            match values.iter().zip(&trained).position(|(v, &k)| k && !v.is_finite()) {
                Some(at) => Err(ObjectiveError::NonFinite { what, row: at / cols }),
                None => Ok(values),
            }
        };
        let logp = of_tokens("logp", &input.logp)?;
        let behaviour = of_tokens("behaviour_logp", &input.behaviour_logp)?;
        let proximal = input.proximal_logp.as_ref().map(|p| of_tokens("proximal_logp", p)).transpose()?;
        let advantages = host(&input.advantages)?;
        if let Some(row) = advantages.iter().position(|a| !a.is_finite()) {
            return Err(ObjectiveError::NonFinite { what: "advantages", row });
        }
        Ok(Self { input, rows, cols, keep, trained, lengths, logp, behaviour, proximal, advantages })
    }

    pub(crate) fn dtype(&self) -> DType {
        self.input.logp.dtype()
    }

    /// Trained tokens of the whole input.
    pub(crate) fn tokens(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// `values` in the dtype and on the device of `logp`, as `[N]`.
    pub(crate) fn column(&self, values: Vec<f64>) -> Result<Tensor, ObjectiveError> {
        let host = Tensor::from_vec(values, self.rows, &Device::Cpu)?.to_dtype(self.dtype())?;
        Ok(host.to_device(self.input.logp.device())?)
    }

    /// `tensor` in the dtype of `logp`, with zeros where nothing is trained. Selecting (not multiplying) keeps a
    /// NaN in the padding out of the value and out of the gradient.
    pub(crate) fn masked(&self, tensor: &Tensor) -> Result<Tensor, ObjectiveError> {
        let tensor = tensor.to_dtype(self.dtype())?;
        Ok(self.keep.where_cond(&tensor, &tensor.zeros_like()?)?)
    }

    /// (response, flat index) of every trained token, row by row.
    pub(crate) fn trained_tokens(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.trained.len()).filter(|&at| self.trained[at]).map(|at| (at / self.cols, at))
    }

    /// The mean of `values` over the trained tokens of each response, zero for an empty one. `[N]`.
    pub(crate) fn host_response_means(&self, values: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.rows];
        for (row, at) in self.trained_tokens() {
            sums[row] += values[at];
        }
        sums.iter().zip(&self.lengths).map(|(sum, &n)| sum / n.max(1) as f64).collect()
    }
}

/// A tensor's values on the host, row-major, in f64.
pub(crate) fn host(tensor: &Tensor) -> Result<Vec<f64>, ObjectiveError> {
    Ok(tensor.detach().flatten_all()?.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.to_vec1()?)
}

fn expect_shape(what: &'static str, found: &[usize], expected: &[usize]) -> Result<(), ObjectiveError> {
    if found == expected {
        return Ok(());
    }
    Err(ObjectiveError::Shape { what, found: found.to_vec(), expected: expected.to_vec() })
}
