//! What judging costs, and what its values do: for the fuzz targets.

use std::sync::Arc;

use super::expr::Expr;
use super::*;

/// Values up to this size are moved: beyond it, floats need not tell a number from the next but one.
const MAX_MOVED: f64 = 1e6;

/// [`judge`], and the steps that each of its parts took: reading the response, reading the
/// gold answer, comparing them.
pub(crate) fn judge_counted(gold: &str, response: &str, options: &MathOptions) -> (MathJudgement, [u32; 3]) {
    let budgets = [(); 3].map(|()| StepBudget::new(MAX_STEPS));
    let extracted = extract::extract(response, options, &budgets[0]);
    let gold = extract::extract(gold, options, &budgets[1]);
    let equal = verify_within(&gold, &extracted, options, &budgets[2]);
    (MathJudgement { equal, extracted }, budgets.map(|budget| MAX_STEPS - budget.left()))
}

/// Whether a number is taken for itself with `more` added to it, by its value: neither the texts
/// nor the terms are the same. `None` where the answer is no number, where its errors leave open
/// what it is, and where the budget ends.
pub(crate) fn equals_with(answer: &Parsed, more: i64, options: &MathOptions) -> Option<bool> {
    let value = answer.value.clone()?;
    let moved = Arc::new(Expr::Add(vec![value.clone(), Arc::new(Expr::exact(number::integer(more)))]));
    let budget = StepBudget::new(MAX_STEPS);
    let number = evaluate::constant(&moved, &budget)?;
    if !number.same(&number)? || number.approx()?.value.norm() > MAX_MOVED {
        return None;
    }
    let moved = Parsed { value: Some(moved), text: None, bare: false };
    let equal = verify_within(answer, &moved, options, &budget);
    (budget.left() > 0).then_some(equal)
}
