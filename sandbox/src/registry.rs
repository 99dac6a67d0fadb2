//! The tasks that exist, by name.

use std::collections::BTreeMap;

use echo_protocol::charter::TaskSpec;

use crate::spec::{self, MAX_NAME_BYTES, SpecError};
use crate::task::Task;
use crate::tasks::{chain_sum, countdown, number_sorting, spell_backward};

type Params = BTreeMap<String, i64>;
type Builder = fn(&Params) -> Result<Box<dyn Task>, SpecError>;

const TASKS: [(&str, Builder); 4] = [
    (chain_sum::NAME, |params| {
        Ok(Box::new(chain_sum::ChainSum::new(spec::config(chain_sum::NAME, params)?)?))
    }),
    (countdown::NAME, |params| {
        Ok(Box::new(countdown::Countdown::new(spec::config(countdown::NAME, params)?)?))
    }),
    (number_sorting::NAME, |params| {
        Ok(Box::new(number_sorting::NumberSorting::new(spec::config(number_sorting::NAME, params)?)?))
    }),
    (spell_backward::NAME, |params| {
        Ok(Box::new(spell_backward::SpellBackward::new(spec::config(spell_backward::NAME, params)?)?))
    }),
];

/// The names of all tasks, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    TASKS.iter().map(|(name, _)| *name)
}

/// Builds the task that `spec` asks for; the weight plays no part.
///
/// # Errors
/// When there is no such task or parameter (the message lists those that exist), or a parameter is out of range.
pub fn build(spec: &TaskSpec) -> Result<Box<dyn Task>, SpecError> {
    if spec.name.len() > MAX_NAME_BYTES {
        return Err(SpecError::LongName { bytes: spec.name.len() });
    }
    let Some((_, builder)) = TASKS.iter().find(|(name, _)| *name == spec.name) else {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(SpecError::UnknownTask { name: spec.name.clone(), known });
    };
    builder(&spec.params)
}

#[cfg(test)]
mod tests;
