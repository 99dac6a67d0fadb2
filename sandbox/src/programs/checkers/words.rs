//! Files as sequences of tokens.

use super::message::{ordinal, quote};
use super::stream::{FileStream, Files};
use super::verdict::{CheckerVerdict, Judgement};

/// `wcmp`: the same tokens.
pub(super) fn sequence(files: &mut Files<'_>) -> Result<String, Judgement> {
    let mut count = 0;
    let mut single = String::new();
    while files.both_go_on() {
        let (expected, found) = (files.answer.word()?, files.output.word()?);
        count += 1;
        if expected != found {
            let nth = ordinal(count);
            let (expected, found) = (quote(expected), quote(found));
            let message = format!("{nth} words differ - expected: '{expected}', found: '{found}'");
            return Err(Judgement::wrong(message));
        }
        if count == 1 {
            single = quote(expected);
        }
    }
    match (files.answer.seek_end(), files.output.seek_end()) {
        (true, true) if count == 1 => Ok(format!("\"{single}\"")),
        (true, true) => Ok(format!("{count} tokens")),
        (true, false) => Err(Judgement::wrong("Participant output contains extra tokens".into())),
        (false, _) => Err(Judgement::wrong("Unexpected EOF in the participants output".into())),
    }
}

/// `yesno`: one yes or no.
pub(super) fn yes_or_no(files: &mut Files<'_>) -> Result<String, Judgement> {
    let (expected, found) = (files.answer.word()?, files.output.word()?);
    let yes = same_choice(expected, found, String::new)?;
    Ok(format!("answer is {}", choice_name(yes)))
}

/// `nyesno`: the same sequence of yes and no.
pub(super) fn yes_and_no(files: &mut Files<'_>) -> Result<String, Judgement> {
    let (mut yes, mut no) = (0, 0);
    while files.both_go_on() {
        let (expected, found) = (files.answer.word()?, files.output.word()?);
        let place = || format!(" [{} token]", ordinal(yes + no + 1));
        if same_choice(expected, found, place)? { yes += 1 } else { no += 1 }
    }
    let count = yes + no;
    same_length(files, count, |stream| stream.word().map(drop))?;
    Ok(match count {
        0 => "Empty output".to_owned(),
        1 => choice_name(yes == 1).to_owned(),
        _ => format!("{count} token(s): yes count is {yes}, no count is {no}"),
    })
}

fn choice_name(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

/// Whether a token says yes (in any case), or no; neither gives none.
fn choice(word: &[u8]) -> Option<bool> {
    [true, false].into_iter().find(|yes| word.eq_ignore_ascii_case(choice_name(*yes).as_bytes()))
}

/// What both tokens say. `place` ends the message if they differ.
fn same_choice(expected: &[u8], found: &[u8], place: impl Fn() -> String) -> Result<bool, Judgement> {
    let upper = |word: &[u8]| quote(word).to_ascii_uppercase();
    let Some(right) = choice(expected) else {
        let message = format!("YES or NO expected in answer, but {} found{}", upper(expected), place());
        return Err(Judgement::new(CheckerVerdict::Fail, message));
    };
    let Some(said) = choice(found) else {
        let message = format!("YES or NO expected, but {} found{}", upper(found), place());
        return Err(Judgement::new(CheckerVerdict::PresentationError, message));
    };
    if right != said {
        let (expected, found) = (choice_name(right), choice_name(said));
        return Err(Judgement::wrong(format!("expected {expected}, found {found}{}", place())));
    }
    Ok(right)
}

/// Reads what is left of both files after `common` items that agreed: neither may go on.
pub(super) fn same_length(
    files: &mut Files<'_>,
    common: usize,
    read: impl Fn(&mut FileStream<'_>) -> Result<(), Judgement>,
) -> Result<(), Judgement> {
    let remaining = |stream: &mut FileStream<'_>| {
        let mut count = 0;
        while !stream.seek_end() {
            read(stream)?;
            count += 1;
        }
        Ok(count)
    };
    let (expected, found) = (remaining(&mut files.answer)?, remaining(&mut files.output)?);
    let longer = |this: &str, other: &str, extra: usize| {
        let length = common + extra;
        format!("{this} contains longer sequence [length = {length}], but {other} contains {common} elements")
    };
    if expected > 0 {
        return Err(Judgement::wrong(longer("Answer", "output", expected)));
    }
    if found > 0 {
        return Err(Judgement::wrong(longer("Output", "answer", found)));
    }
    Ok(())
}
