//! `echo-lab vectors`

use clap::{Args, Subcommand, ValueEnum};
use echo_lab::conformance;
use echo_lab::harness::processes::interruptible;
use echo_lab::output::console::{CommandReport, Console};
use echo_learner::training::objective::vectors::CheckArithmetic;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(super) enum Vectors {
    /// Models: config.json, model.safetensors and expected.json in each directory below DIR.
    Models {
        /// A directory of model directories.
        dir: PathBuf,
    },
    /// Encodings and rendered chats, one JSON object a line.
    Tokenizer(TokenizerVectors),
    /// Losses and gradients of objectives, one JSON object a line.
    Objectives {
        /// A file of vectors, one JSON object a line.
        file: PathBuf,
        /// The arithmetic to check: f64 as the references, or f32 as in training, with its wider tolerance.
        #[arg(long, value_enum, default_value_t = Arithmetic::F64)]
        precision: Arithmetic,
    },
    /// Deltas: old.safetensors and new.safetensors in DIR and each directory below it.
    Delta {
        /// A directory with two checkpoints, or with directories of two each.
        dir: PathBuf,
    },
    /// Answers to mathematical problems: does the prediction equal the gold, and soon? One
    /// JSON object a line.
    Math {
        /// The cases, in the form of Math-Verify's tests, GSM8K or MATH.
        file: PathBuf,
    },
    /// Cases that users of other programs reported as judged wrongly: answers, programs, functions, or
    /// programs in responses. At least 97 % of the answers and 95 % of the others have to be as expected.
    Reports {
        /// The cases, one JSON object a line or a JSON array. Their keys say which form they have.
        file: PathBuf,
    },
    /// Files of rows as people have them: each is read, or refused in words that name row and mend.
    Datasets {
        /// The list: `id`, `task`, `file` and `expect` of each file, which lies beside it.
        list: PathBuf,
    },
    /// Outputs of programs, judged by testlib's checkers, one JSON object a line.
    Checkers {
        /// A file of cases, one JSON object a line.
        file: PathBuf,
    },
    /// Hold'em hands, one JSON object a line: legal actions, pots and stacks before every
    /// decision, and final stacks.
    Holdem {
        /// A file of hands.
        file: PathBuf,
    },
    /// Recorded hold'em hands (PHH), one JSON object a line: that each action is legal, and final
    /// stacks. It reads the file of `holdem` too, and passes over what that says before decisions.
    Phh {
        /// A file of hands.
        file: PathBuf,
    },
    /// Functions with their checks, in the form of HumanEval or MBPP, one JSON object a line:
    /// references are accepted, wrong versions are not.
    Functions {
        /// A file of functions, one JSON object a line.
        file: PathBuf,
    },
    /// The published model of `cargo lab model smollm2`: llama.cpp has to read the same tokens and give the
    /// same log-probs.
    Smollm2 {
        /// A Python with llama-cpp-python.
        #[arg(long, value_name = "PROGRAM", default_value = "python3")]
        python: PathBuf,
    },
    /// Exported policies of every family: `transformers` has to open them and give the same log-probs.
    Export {
        /// A Python with torch and transformers.
        #[arg(long, value_name = "PROGRAM", default_value = "python3")]
        python: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(super) struct TokenizerVectors {
    /// A file of vectors, one JSON object a line.
    pub(super) file: PathBuf,
    /// Directory of tokenizer.json and tokenizer_config.json; that of FILE if not given.
    #[arg(long, value_name = "DIR")]
    pub(super) tokenizer: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Arithmetic {
    F32,
    F64,
}

impl Vectors {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<CommandReport> {
        let report = match self {
            Self::Delta { dir } => return conformance::delta::check(&dir, console),
            Self::Smollm2 { python } => {
                return interruptible(conformance::smollm2::check(&python, console));
            }
            Self::Export { python } => return conformance::export::check(&python, console),
            Self::Math { file } => return conformance::sandbox::quick_math(&file, console),
            Self::Datasets { list } => return conformance::datasets::check(&list, console),
            Self::Reports { file } => return conformance::reports::check(&file, console),
            Self::Checkers { file } => return conformance::sandbox::checkers(&file, console),
            Self::Holdem { file } => return conformance::sandbox::holdem(&file, console),
            Self::Phh { file } => return conformance::sandbox::phh(&file, console),
            Self::Functions { file } => return conformance::sandbox::functions(&file, console),
            Self::Models { dir } => conformance::models(&dir),
            Self::Tokenizer(TokenizerVectors { file, tokenizer }) => {
                conformance::tokenizer(&file, tokenizer.as_deref())
            }
            Self::Objectives { file, precision: Arithmetic::F32 } => {
                conformance::objectives(&file, CheckArithmetic::F32)
            }
            Self::Objectives { file, precision: Arithmetic::F64 } => {
                conformance::objectives(&file, CheckArithmetic::F64)
            }
        }?;
        Ok(conformance::tell(console, &report))
    }
}
