//! What is said in an episode: the prompt, and one turn of the policy.

/// What the policy is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text that the response continues.
    pub text: String,
}

/// What the policy said in one turn, which is all of it in most tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The generated text, without what was said before and without the end token.
    pub text: &'a str,
    /// Whether the policy ended the response itself; false when it was cut by length.
    pub finished: bool,
}

impl<'a> Response<'a> {
    /// A turn for which there were no tokens left.
    pub const NOTHING: Response<'static> = Response { text: "", finished: false };

    /// The text without trailing ASCII whitespace; `None` when it was cut, because a beginning
    /// is not an answer.
    pub fn answer(&self) -> Option<&'a str> {
        self.finished.then(|| self.text.trim_ascii_end())
    }
}
