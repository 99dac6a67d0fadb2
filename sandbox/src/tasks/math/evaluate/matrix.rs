//! Matrices of numbers.

use super::super::budget::StepBudget;
use super::super::scalar::Scalar;
use super::{add, multiply, power};

/// The largest power of a matrix that is worked out.
const MAX_POWER: i64 = 64;

/// The most rows of a matrix whose determinant or inverse is worked out.
const MAX_ELIMINATED: usize = 8;

/// A matrix, row after row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    pub(crate) columns: usize,
    pub(crate) entries: Vec<Scalar>,
}

impl Grid {
    pub(crate) fn rows(&self) -> usize {
        self.entries.len().checked_div(self.columns).unwrap_or(0)
    }

    /// The price of going over all entries once.
    fn charge(&self, budget: &StepBudget) -> Option<()> {
        self.entries.iter().try_for_each(|entry| budget.charge(1 + entry.words()))
    }

    fn at(&self, row: usize, column: usize) -> &Scalar {
        &self.entries[row * self.columns + column]
    }

    fn identity(size: usize) -> Self {
        let entries = (0..size * size).map(|i| Scalar::integer(i64::from(i / size == i % size))).collect();
        Self { columns: size, entries }
    }

    pub(super) fn add(&self, other: &Self, budget: &StepBudget) -> Option<Self> {
        if self.columns != other.columns || self.entries.len() != other.entries.len() {
            return None;
        }
        let pairs = self.entries.iter().zip(&other.entries);
        let entries = pairs.map(|(left, right)| add(left, right, budget));
        Some(Self { columns: self.columns, entries: entries.collect::<Option<_>>()? })
    }

    pub(super) fn scale(&self, factor: &Scalar, budget: &StepBudget) -> Option<Self> {
        let entries = self.entries.iter().map(|entry| multiply(entry, factor, budget));
        Some(Self { columns: self.columns, entries: entries.collect::<Option<_>>()? })
    }

    pub(super) fn multiply(&self, other: &Self, budget: &StepBudget) -> Option<Self> {
        if self.columns != other.rows() {
            return None;
        }
        let mut entries = Vec::new();
        for row in 0..self.rows() {
            for column in 0..other.columns {
                let mut sum = Scalar::integer(0);
                for k in 0..self.columns {
                    let product = multiply(self.at(row, k), other.at(k, column), budget)?;
                    sum = add(&sum, &product, budget)?;
                }
                entries.push(sum);
            }
        }
        Some(Self { columns: other.columns, entries })
    }

    pub(super) fn power(&self, exponent: i64, budget: &StepBudget) -> Option<Self> {
        if self.rows() != self.columns || exponent.abs() > MAX_POWER {
            return None;
        }
        self.charge(budget)?;
        let base = if exponent < 0 { self.inverse(budget)? } else { self.clone() };
        (0..exponent.abs()).try_fold(Self::identity(self.columns), |power, _| power.multiply(&base, budget))
    }

    pub(super) fn transpose(&self, budget: &StepBudget) -> Option<Self> {
        self.charge(budget)?;
        let places = (0..self.columns).flat_map(|column| (0..self.rows()).map(move |row| (row, column)));
        Some(Self {
            columns: self.rows(),
            entries: places.map(|(row, column)| self.at(row, column).clone()).collect(),
        })
    }

    pub(super) fn trace(&self, budget: &StepBudget) -> Option<Scalar> {
        if self.rows() != self.columns {
            return None;
        }
        (0..self.columns).try_fold(Scalar::integer(0), |sum, i| add(&sum, self.at(i, i), budget))
    }

    /// The root of the sum of squares.
    pub(super) fn norm(&self, budget: &StepBudget) -> Option<Scalar> {
        let squares = self.entries.iter().map(|entry| {
            let size = entry.abs()?;
            multiply(&size, &size, budget)
        });
        let sum =
            squares.into_iter().try_fold(Scalar::integer(0), |sum, square| add(&sum, &square?, budget))?;
        let half = Scalar::integer(2).power(&Scalar::integer(-1))?;
        power(&sum, &half, budget)
    }

    pub(super) fn determinant(&self, budget: &StepBudget) -> Option<Scalar> {
        self.eliminate(budget).map(|(determinant, _)| determinant)
    }

    fn inverse(&self, budget: &StepBudget) -> Option<Self> {
        self.eliminate(budget)?.1
    }

    /// Gauss and Jordan: the determinant, and the inverse where there is one.
    fn eliminate(&self, budget: &StepBudget) -> Option<(Scalar, Option<Self>)> {
        let size = self.columns;
        if self.rows() != size || size > MAX_ELIMINATED {
            return None;
        }
        let (mut left, mut right) = (self.clone(), Self::identity(size));
        let mut determinant = Scalar::integer(1);
        for column in 0..size {
            // The weights below are floats of every entry.
            left.charge(budget)?;
            let weight = |row: &usize| left.at(*row, column).approx().map_or(0.0, |a| a.value.norm());
            let pivot = (column..size).max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
            if weight(&pivot) == 0.0 {
                return Some((Scalar::integer(0), None));
            }
            if pivot != column {
                for grid in [&mut left, &mut right] {
                    (0..size).for_each(|k| grid.entries.swap(pivot * size + k, column * size + k));
                }
                determinant = determinant.negate()?;
            }
            let head = left.at(column, column).clone();
            determinant = multiply(&determinant, &head, budget)?;
            let inverse = power(&head, &Scalar::integer(-1), budget)?;
            for row in (0..size).filter(|row| *row != column) {
                let factor = multiply(left.at(row, column), &inverse, budget)?.negate()?;
                for grid in [&mut left, &mut right] {
                    for k in 0..size {
                        let step = multiply(grid.at(column, k), &factor, budget)?;
                        grid.entries[row * size + k] = add(grid.at(row, k), &step, budget)?;
                    }
                }
            }
            for k in 0..size {
                for grid in [&mut left, &mut right] {
                    grid.entries[column * size + k] = multiply(grid.at(column, k), &inverse, budget)?;
                }
            }
        }
        Some((determinant, Some(right)))
    }
}
