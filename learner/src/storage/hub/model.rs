//! Which files of a model are needed.

use super::client::Client;
use super::download;
use super::error::{HubError, io_error};
use super::listing::{ListedFile, Listing, Repository};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What describes a model, its tokenizer and its chat template.
const TEXTS: [&str; 11] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    SHARDS,
];
/// Weights in one file.
const WHOLE: &str = "model.safetensors";
/// Which tensor is in which file, where there are several.
const SHARDS: &str = "model.safetensors.index.json";

/// Whether a file of a model's directory is a part of the model by its name. What else lies there, such as
/// notes and states of programs, is not.
#[must_use]
pub fn is_part_of_a_model(name: &str) -> bool {
    TEXTS.contains(&name) || name.ends_with(".safetensors")
}

/// The part of [`SHARDS`] that is read.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that a model directory needs: configuration, tokenizer, template and safetensors.
pub(super) fn wanted(
    client: &Client,
    repository: &Repository,
    listing: &Listing,
) -> Result<Vec<ListedFile>, HubError> {
    let lacks = |why: &str| HubError::NoModel { repository: repository.name.clone(), why: why.to_owned() };
    if listing.file("config.json").is_none() {
        let is_adapter = listing.file("adapter_config.json").is_some();
        return Err(lacks(if is_adapter {
            "it is an adapter: merge it into its base model first"
        } else {
            "it has no config.json"
        }));
    }
    let weights = match listing.file(SHARDS) {
        // As whoever reads the directory does: one whole file comes first.
        Some(index) if listing.file(WHOLE).is_none() => shards(client, repository, listing, index)?,
        _ => BTreeSet::from([WHOLE.to_owned()]),
    };
    if let Some(missing) = weights.iter().find(|name| listing.file(name).is_none()) {
        let is_pickle =
            |file: &&ListedFile| [".bin", ".pt", ".pth", ".ckpt"].iter().any(|end| file.path.ends_with(end));
        let has_safetensors = listing.files.iter().any(|file| file.path.ends_with(".safetensors"));
        return Err(match listing.files.iter().find(is_pickle).filter(|_| !has_safetensors) {
            Some(file) => HubError::Pickle { repository: repository.name.clone(), file: file.path.clone() },
            None => lacks(&format!("it has no {missing}")),
        });
    }
    let texts = TEXTS.iter().filter_map(|name| listing.file(name));
    Ok(texts.chain(weights.iter().filter_map(|name| listing.file(name))).cloned().collect())
}

/// The files that an index of weights names.
fn shards(
    client: &Client,
    repository: &Repository,
    listing: &Listing,
    index: &ListedFile,
) -> Result<BTreeSet<String>, HubError> {
    let path = download::file(client, repository, &listing.commit, index)?;
    let text = fs::read(&path).map_err(io_error(&path))?;
    let read = serde_json::from_slice::<Index>(&text);
    let index = read.map_err(|error| HubError::NoModel {
        repository: repository.name.clone(),
        why: format!("its {SHARDS} cannot be read: {error}"),
    })?;
    Ok(index.weight_map.into_values().collect())
}
