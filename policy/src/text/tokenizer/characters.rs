//! One token a character, for the procedural tasks: a policy of 64 tokens learns them in
//! minutes on two cores.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, TokenizerError};

/// Tokens of a character tokenizer whose alphabet has at most 61 characters, unused ones
/// included: a run may change such an alphabet and not the model's shape. Longer alphabets take
/// a multiple of this.
pub const CHARACTER_VOCABULARY: usize = 64;
/// Most characters of an alphabet.
pub const MAX_ALPHABET: usize = 1021;
/// What the four procedural tasks write, in the order of the ids.
pub const DEFAULT_ALPHABET: &str = "0123456789abcdefghijklmnopqrstuvwxyz +-*/=(),:;?._>\n";

/// The names of tokens that are not characters. Only decoding writes them: a text that spells
/// one is characters all the same, where the alphabet has them, so nothing that a task quotes
/// becomes a special token.
const SPECIALS: [&str; 3] = ["<pad>", "<bos>", "<eos>"];
/// transformers' mark for "no limit".
const NO_LENGTH_LIMIT: u64 = 1_000_000_000;

/// Three special tokens, then the characters of an alphabet, then unused tokens up to
/// a multiple of [`CHARACTER_VOCABULARY`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CharTokenizer {
    alphabet: Vec<char>,
    ids: BTreeMap<char, u32>,
}

impl Default for CharTokenizer {
    fn default() -> Self {
        Self::new(DEFAULT_ALPHABET).expect("the default alphabet is valid, and a test says so")
    }
}

impl CharTokenizer {
    /// The token that fills batches.
    pub const PAD: u32 = 0;
    /// The token that starts a text, for models that want one; the procedural tasks do not use it.
    pub const BOS: u32 = 1;
    /// The token that ends a response.
    pub const EOS: u32 = 2;

    /// A tokenizer of other characters: the first character of `alphabet` has id 3, and so on.
    ///
    /// # Errors
    /// When the alphabet is empty, has more than [`MAX_ALPHABET`] characters, or one of them twice.
    pub fn new(alphabet: &str) -> Result<Self, TokenizerError> {
        let refuse = |text: String| Err(TokenizerError::Alphabet(text));
        let alphabet: Vec<char> = alphabet.chars().take(MAX_ALPHABET + 1).collect();
        if alphabet.is_empty() {
            return refuse("it is empty".into());
        }
        if alphabet.len() > MAX_ALPHABET {
            return refuse(format!("it has more than {MAX_ALPHABET} characters"));
        }
        let mut ids = BTreeMap::new();
        for (id, &character) in (SPECIALS.len() as u32..).zip(&alphabet) {
            if ids.insert(character, id).is_some() {
                return refuse(format!("{character:?} is there twice"));
            }
        }
        Ok(Self { alphabet, ids })
    }

    /// The tokenizer of a run whose charter names `alphabet`; an empty one stands for [`DEFAULT_ALPHABET`].
    ///
    /// # Errors
    /// As [`CharTokenizer::new`], save for an empty alphabet.
    pub fn of_charter(alphabet: &str) -> Result<Self, TokenizerError> {
        if alphabet.is_empty() { Ok(Self::default()) } else { Self::new(alphabet) }
    }

    /// Number of tokens, unused ones included.
    pub fn vocabulary(&self) -> usize {
        (SPECIALS.len() + self.alphabet.len()).next_multiple_of(CHARACTER_VOCABULARY)
    }

    /// The characters in the order of their ids.
    pub fn alphabet(&self) -> String {
        self.alphabet.iter().collect()
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let id = |(position, character)| {
            self.ids.get(&character).copied().ok_or(TokenizerError::UnknownCharacter { character, position })
        };
        text.chars().enumerate().map(id).collect()
    }

    pub(super) fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        let mut text = String::with_capacity(ids.len());
        for (index, &id) in ids.iter().enumerate() {
            if id as usize >= self.vocabulary() {
                return Err(TokenizerError::UnknownId { id, index, vocabulary: self.vocabulary() });
            }
            if !(skip_special && (id as usize) < SPECIALS.len()) {
                text.push_str(&self.name(id as usize));
            }
        }
        Ok(text)
    }

    pub(super) fn token_id(&self, token: &str) -> Option<u32> {
        (0..self.vocabulary()).find(|&id| self.name(id) == token).map(|id| id as u32)
    }

    /// A token's text: the character itself, or a name in angle brackets.
    fn name(&self, id: usize) -> String {
        match SPECIALS.get(id) {
            Some(name) => (*name).to_owned(),
            None => {
                let index = id - SPECIALS.len();
                let unused = || format!("<unused-{}>", index - self.alphabet.len());
                self.alphabet.get(index).map_or_else(unused, char::to_string)
            }
        }
    }

    /// The text of a `tokenizer.json` that encodes and decodes the same way, for `tokenizers` and
    /// `transformers`; save that there a text that spells the name of a special token is that
    /// token, which an alphabet without `<` has no text for.
    pub fn to_huggingface_json(&self) -> String {
        let vocabulary: serde_json::Map<String, Value> =
            (0..self.vocabulary()).map(|id| (self.name(id), Value::from(id))).collect();
        let special = |(id, content): (usize, &&str)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        };
        let tokenizer = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": SPECIALS.iter().enumerate().map(special).collect::<Vec<_>>(),
            "normalizer": null,
            // A class that needs no "dot matches newline" flag: its spelling differs between regex engines.
            "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": false},
            "post_processor": null,
            "decoder": {"type": "Fuse"},
            // No token has this name, so an unknown character is an error there too.
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unknown>"},
        });
        format!("{tokenizer:#}\n")
    }

    /// The text of the `tokenizer_config.json` that goes beside [`CharTokenizer::to_huggingface_json`].
    pub fn to_huggingface_config(&self) -> String {
        let config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": SPECIALS[0],
            "bos_token": SPECIALS[1],
            "eos_token": SPECIALS[2],
            "add_bos_token": false,
            "add_eos_token": false,
            "clean_up_tokenization_spaces": false,
            "model_max_length": NO_LENGTH_LIMIT,
        });
        format!("{config:#}\n")
    }

    /// Writes both files into a directory that exists.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn save_huggingface(&self, dir: &Path) -> Result<(), TokenizerError> {
        for (name, text) in [
            (TOKENIZER_FILE, self.to_huggingface_json()),
            (TOKENIZER_CONFIG_FILE, self.to_huggingface_config()),
        ] {
            let path = dir.join(name);
            std::fs::write(&path, text).map_err(|source| TokenizerError::File { path, source })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::tokenizer::{HfTokenizer, Tokenizer};

    #[test]
    fn the_procedural_tasks_are_spelled_out() {
        let tokenizer = CharTokenizer::default();
        for text in ["12+34=", "sort 9,3,7=", "reverse cat=", "make 24 from 3,8,1=", "(8-1)*3\n", ""] {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(ids.len(), text.len());
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
        }
        assert_eq!(tokenizer.encode("0a").unwrap(), [3, 13]);
        assert_eq!(tokenizer.decode(&[1, 3, 2, 0, 63], true).unwrap(), "0<unused-8>");
        assert_eq!(tokenizer.decode(&[1, 3, 2, 0], false).unwrap(), "<bos>0<eos><pad>");
    }

    #[test]
    fn what_is_unknown_is_named() {
        let tokenizer = CharTokenizer::default();
        let error = tokenizer.encode("1+é").unwrap_err();
        assert!(matches!(error, TokenizerError::UnknownCharacter { character: 'é', position: 2 }), "{error}");
        let error = tokenizer.decode(&[3, 64], true).unwrap_err();
        assert!(matches!(error, TokenizerError::UnknownId { id: 64, index: 1, .. }), "{error}");
    }

    #[test]
    fn bad_alphabets_are_refused() {
        let long: String = ('\u{4e00}'..).take(MAX_ALPHABET + 1).collect();
        for alphabet in ["", "aba", &long] {
            assert!(matches!(CharTokenizer::new(alphabet), Err(TokenizerError::Alphabet(_))), "{alphabet:?}");
        }
        for (characters, vocabulary) in [(61, 64), (62, 128), (MAX_ALPHABET, 1024)] {
            let alphabet: String = ('\u{4e00}'..).take(characters).collect();
            let tokenizer = CharTokenizer::new(&alphabet).unwrap();
            assert_eq!((tokenizer.alphabet(), tokenizer.vocabulary()), (alphabet, vocabulary));
            assert_eq!(tokenizer.token_id("<eos>"), Some(CharTokenizer::EOS));
        }
    }

    #[test]
    fn what_spells_a_special_token_is_none() {
        let tokenizer = CharTokenizer::new("<>abceops0").unwrap();
        let text = "0<a><eos><bos";
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(ids.len(), text.len());
        assert!(ids.iter().all(|id| *id > CharTokenizer::EOS));
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
        assert_eq!(tokenizer.decode(&[CharTokenizer::EOS], true).unwrap(), "");
        // The exported form agrees about all that spells no special token's name.
        let exported = HfTokenizer::from_bytes(tokenizer.to_huggingface_json().as_bytes(), None).unwrap();
        for text in ["<", "a<b>c", "<<0>", "<bos"] {
            assert_eq!(exported.encode(text).unwrap(), tokenizer.encode(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn the_charters_empty_alphabet_is_the_default_one() {
        assert_eq!(CharTokenizer::of_charter("").unwrap(), CharTokenizer::default());
        assert_eq!(CharTokenizer::of_charter("01").unwrap().alphabet(), "01");
        assert!(CharTokenizer::of_charter("00").is_err());
    }

    #[test]
    fn the_exported_directory_opens_with_the_same_specials() {
        let dir = tempfile::tempdir().unwrap();
        CharTokenizer::default().save_huggingface(dir.path()).unwrap();
        let opened = Tokenizer::from_dir(dir.path()).unwrap();
        let own = Tokenizer::from(CharTokenizer::default());
        assert_eq!(opened.vocab_size(), own.vocab_size());
        assert_eq!((opened.eos_id(), opened.pad_id()), (Some(2), Some(0)));
        for token in ["<pad>", "<bos>", "<eos>", "a", "\n", "<unused-0>", "<unused-9>"] {
            assert_eq!(opened.token_id(token), own.token_id(token), "{token}");
        }
        assert!(matches!(opened.encode("A"), Err(TokenizerError::Encode(_))));
    }

    fn pair() -> (CharTokenizer, HfTokenizer) {
        let own = CharTokenizer::default();
        let json = own.to_huggingface_json();
        (own, HfTokenizer::from_bytes(json.as_bytes(), None).unwrap())
    }

    proptest! {
        #[test]
        fn both_forms_agree(texts in prop::collection::vec("[0-9a-z +*/=(),:;?._>\n-]{0,40}", 20),
                            ids in prop::collection::vec(0u32..64, 0..40)) {
            let (own, exported) = pair();
            for text in texts {
                prop_assert_eq!(own.encode(&text).unwrap(), exported.encode(&text).unwrap());
            }
            for skip in [false, true] {
                prop_assert_eq!(own.decode(&ids, skip).unwrap(), exported.decode(&ids, skip).unwrap());
            }
        }
    }
}
