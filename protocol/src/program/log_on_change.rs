//! A message that would be logged again and again is logged when it changes.

/// The message that was logged last about one thing.
#[derive(Debug, Default)]
pub struct LastMessage(Option<String>);

impl LastMessage {
    /// Whether `message` differs from the last one, in whose place it is remembered.
    pub fn is_new(&mut self, message: &str) -> bool {
        let is_new = self.0.as_deref() != Some(message);
        if is_new {
            self.0 = Some(message.to_owned());
        }
        is_new
    }

    /// Forgets the last message: if the same happens again, it is news.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_new_when_it_differs_from_the_last_or_comes_after_a_good_time() {
        let mut last = LastMessage::default();
        assert!(last.is_new("away") && !last.is_new("away"));
        assert!(last.is_new("banned") && last.is_new("away"));
        last.clear();
        assert!(last.is_new("away"));
    }
}
