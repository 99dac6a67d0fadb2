use super::*;
use crate::common::testing;
use std::fs;

/// Why the changed charter of a workload cannot be worked on; its tokenizer's files lie in `home`.
fn refused(workload: Workload, home: &Path, change: impl FnOnce(&mut Charter)) -> String {
    let Workload { run, mut charter, .. } = workload;
    change(&mut charter);
    Workload::open(run, charter, home, &TaskFiles::none()).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_mended_where_the_model_has_its_sizes_from() {
    let home = tempfile::tempdir().unwrap();
    let tiny = refused(testing::two_turns().0, home.path(), |charter| charter.sampling.max_new_tokens = 1000);
    assert!(tiny.contains("; or set [model.tiny] positions to at least 1"), "{tiny}");
    let chat = testing::chat(home.path()).0;
    let published = refused(chat, home.path(), |charter| charter.sampling.max_new_tokens = 1000);
    assert!(published.contains("; or take a model that has more positions"), "{published}");
    assert!(!published.contains("[model.tiny]"), "{published}");
}

#[test]
fn a_tokenizer_that_ends_nothing_is_refused_with_the_file_that_would_say_it() {
    let home = tempfile::tempdir().unwrap();
    let (workload, _) = testing::chat(home.path());
    fs::remove_file(home.path().join("tokenizer_config.json")).unwrap();
    let refused = refused(workload, home.path(), |charter| charter.tokenizer = TokenizerSpec::Snapshot);
    assert!(refused.contains("names no end-of-text token"), "{refused}");
    assert!(refused.contains("set eos_token in tokenizer_config.json"), "{refused}");
}
