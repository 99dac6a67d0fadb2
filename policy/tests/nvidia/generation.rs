use crate::Test;
pub(crate) const TESTS: &[(&str, Test)] = &[];
