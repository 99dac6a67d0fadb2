//! How much a tokenizer may make of a text.
//!
//! A `tokenizer.json` is a program written by somebody else: each of its normalizers,
//! pre-tokenizers and decoders may write more than it reads, and thirty that double a text would
//! fill any memory. The `tokenizers` crate has no limits, and an allocation that fails ends the
//! process. So every step has a factor here, which what it writes cannot exceed, and their product
//! says how long a text may be. All lengths are bytes, and one more for each piece of text, so that
//! what a step puts in front of a piece counts as well.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::{NormalizerWrapper, Replace};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;

use super::TokenizerError;
use super::guard::guarded;

mod charsmap;

/// Bytes that a text may become within a tokenizer, whatever its steps are, and that the
/// text of a sequence of ids may become. The `tokenizers` crate takes up to a hundred bytes
/// of memory for each.
pub const MAX_GROWN: usize = 16 << 20;
/// Times as long that a tokenizer may make a text. The longest published chains, with a
/// compatibility form and a table of characters, come to 5,000; at this factor texts of a KiB
/// can still be encoded.
pub const MAX_GROWTH: usize = 16 << 10;

/// Most bytes that a canonical form has for one of its text, and that a compatibility form has, as
/// Unicode's annex 15 says.
const CANONICAL: u64 = 3;
const COMPATIBLE: u64 = 11;
/// The same of lower case: no character of two bytes has more than three.
const LOWER_CASE: u64 = 2;
/// Bytes of the character that stands for a byte.
const BYTE_CHARACTER: u64 = 2;
/// Bytes of the token that stands for a byte: `<0x0A>`.
const BYTE_TOKEN: u64 = 6;

/// The parts of a `tokenizer.json` that write text. A part that is given twice is refused, as only
/// one would be looked at.
#[derive(Deserialize)]
struct Parts {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    added_tokens: Value,
}

/// How many times as long a text becomes at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpansionLimit {
    /// In front of the model.
    normalized: u64,
    /// Behind it, tokens in place of pieces.
    encoded: u64,
    decoded: u64,
}

impl ExpansionLimit {
    /// Looks at a `tokenizer.json` before the `tokenizers` crate reads the whole: that normalizes
    /// its added tokens at once.
    pub(super) fn of_file(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let parts: Parts =
            serde_json::from_slice(bytes).map_err(|error| TokenizerError::Malformed(error.to_string()))?;
        charsmap::check(&parts.normalizer)?;
        let normalized = read(parts.normalizer)?.as_ref().map_or(1, of_normalizer);
        let normalized =
            normalized.saturating_mul(read(parts.pre_tokenizer)?.as_ref().map_or(1, of_pre_tokenizer));
        let decoded = read(parts.decoder)?.as_ref().map_or(1, of_decoder);
        let growth = Self { normalized, encoded: normalized, decoded };
        within("normalizer and pre-tokenizer", normalized)?;
        within("decoder", decoded)?;
        let added = parts.added_tokens.as_array().into_iter().flatten();
        growth.check_added(added.filter_map(|token| token.get("content")?.as_str()))?;
        Ok(growth)
    }

    /// Takes in how the model spells tokens.
    pub(super) fn with_model(self, model: &ModelWrapper) -> Result<Self, TokenizerError> {
        let encoded = self.normalized.saturating_mul(of_model(model));
        within("normalizer, pre-tokenizer and model", encoded)?;
        Ok(Self { encoded, ..self })
    }

    /// Checks that added tokens stay within [`MAX_GROWN`] when all of them are normalized.
    pub(super) fn check_added<'a>(
        &self,
        tokens: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), TokenizerError> {
        fits("the list of added tokens", pieces(tokens), self.normalized)
    }

    /// Checks that a text stays within [`MAX_GROWN`] on its way to tokens.
    pub(super) fn check_text(&self, text: &str) -> Result<(), TokenizerError> {
        fits("the text", pieces([text]), self.encoded)
    }

    /// Checks that tokens stay within [`MAX_GROWN`] on their way to a text.
    pub(super) fn check_tokens(
        &self,
        tokens: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(), TokenizerError> {
        fits("the text of the sequence", pieces(tokens), self.decoded)
    }
}

/// Bytes of all texts, and one for each.
fn pieces(texts: impl IntoIterator<Item = impl AsRef<str>>) -> u64 {
    texts.into_iter().map(|text| text.as_ref().len() as u64 + 1).fold(0, u64::saturating_add)
}

fn fits(what: &str, length: u64, growth: u64) -> Result<(), TokenizerError> {
    let limit = MAX_GROWN as u64 / growth.max(1);
    let too_large = || TokenizerError::TooLarge { what: what.to_owned(), limit };
    (length <= limit).then_some(()).ok_or_else(too_large)
}

fn within(part: &'static str, growth: u64) -> Result<(), TokenizerError> {
    (growth <= MAX_GROWTH as u64).then_some(()).ok_or(TokenizerError::Grows { part, growth })
}

/// A part as the `tokenizers` crate itself understands it.
fn read<T: DeserializeOwned>(part: Value) -> Result<Option<T>, TokenizerError> {
    guarded(move || Ok(serde_json::from_value(part)?)).map_err(TokenizerError::Malformed)
}

fn of_normalizer(normalizer: &NormalizerWrapper) -> u64 {
    use NormalizerWrapper as N;
    match normalizer {
        N::StripNormalizer(_) | N::StripAccents(_) | N::Nmt(_) => 1,
        N::NFC(_) | N::NFD(_) => CANONICAL,
        N::NFKC(_) | N::NFKD(_) => COMPATIBLE,
        N::Lowercase(_) => LOWER_CASE,
        // Blanks around a character of three bytes, then the marks apart, then lower case.
        N::BertNormalizer(_) => 2 * CANONICAL * LOWER_CASE,
        N::ByteLevel(_) => BYTE_CHARACTER,
        N::Prepend(prepend) => (prepend.prepend.len() as u64).saturating_add(1),
        N::Replace(replace) => of_replace(replace),
        N::Precompiled(precompiled) => charsmap::longest_entry(precompiled),
        N::Sequence(sequence) => sequence.as_ref().iter().map(of_normalizer).fold(1, u64::saturating_mul),
    }
}

fn of_pre_tokenizer(pre_tokenizer: &PreTokenizerWrapper) -> u64 {
    use PreTokenizerWrapper as P;
    match pre_tokenizer {
        P::ByteLevel(bytes) => BYTE_CHARACTER * if bytes.add_prefix_space { 2 } else { 1 },
        P::Metaspace(space) => {
            let bytes = space.get_replacement().len_utf8() as u64;
            if space.get_prepend_scheme() == PrependScheme::Never { bytes } else { 2 * bytes }
        }
        P::Sequence(sequence) => sequence.as_ref().iter().map(of_pre_tokenizer).fold(1, u64::saturating_mul),
        // These only cut.
        P::BertPreTokenizer(_)
        | P::Delimiter(_)
        | P::Whitespace(_)
        | P::Split(_)
        | P::Punctuation(_)
        | P::WhitespaceSplit(_)
        | P::Digits(_)
        | P::UnicodeScripts(_)
        | P::FixedLength(_) => 1,
    }
}

fn of_decoder(decoder: &DecoderWrapper) -> u64 {
    use DecoderWrapper as D;
    match decoder {
        D::Metaspace(_) | D::Fuse(_) | D::Strip(_) | D::ByteFallback(_) => 1,
        // A blank beside a token or a character, or three bytes for a character of two that stands
        // for a byte which begins none.
        D::BPE(_) | D::WordPiece(_) | D::CTC(_) | D::ByteLevel(_) => 2,
        D::Replace(replace) => of_replace(replace),
        D::Sequence(sequence) => sequence.get_decoders().iter().map(of_decoder).fold(1, u64::saturating_mul),
    }
}

/// Most bytes of a token's text for each byte of its piece of text.
fn of_model(model: &ModelWrapper) -> u64 {
    let length = |text: &str| text.len() as u64;
    let byte_token = |fallback| if fallback { BYTE_TOKEN } else { 1 };
    match model {
        ModelWrapper::BPE(bpe) => {
            let around = |text: &Option<String>| text.as_deref().map_or(0, length);
            let character = 1 + around(&bpe.continuing_subword_prefix) + around(&bpe.end_of_word_suffix);
            // It finds a token's text by its id. Two that share one would stand for each other.
            let mut tokens: Vec<(u32, usize)> =
                bpe.get_vocab().into_iter().map(|(token, id)| (id, token.len())).collect();
            tokens.sort_unstable();
            let shared = tokens.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1 as u64);
            character
                .max(around(&bpe.unk_token))
                .max(byte_token(bpe.byte_fallback))
                .max(shared.max().unwrap_or(0))
        }
        ModelWrapper::WordPiece(pieces) => {
            length(&pieces.unk_token).max(1 + length(&pieces.continuing_subword_prefix))
        }
        ModelWrapper::WordLevel(words) => length(&words.unk_token).max(1),
        ModelWrapper::Unigram(unigram) => byte_token(unigram.byte_fallback()),
    }
}

/// Each match becomes the content. A regular expression may match nothing, everywhere.
fn of_replace(replace: &Replace) -> u64 {
    let content = replace.content.len() as u64;
    // The pattern is private: only its serialized form shows it.
    let pattern = serde_json::to_value(replace).ok();
    let pattern = pattern.as_ref().and_then(|written| written["pattern"]["String"].as_str());
    match pattern.map_or(0, |pattern| pattern.len() as u64) {
        0 => content.saturating_add(1),
        pattern => content.div_ceil(pattern).max(1),
    }
}

#[cfg(test)]
mod tests;
