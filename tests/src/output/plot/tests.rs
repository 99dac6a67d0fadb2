use super::*;
use echo_learner::telemetry::metrics::UpdateRow;
use echo_learner::training::evaluation::EvaluationRow;
use std::fs;

/// What a learner writes: a curve that rises, with noise that is the same each time, and an
/// accuracy every 50 updates.
fn metrics(updates: u64) -> String {
    let mut text = String::from("{\"event\":\"started\"}\n");
    for update in 1..=updates {
        let progress = update as f64 / updates as f64;
        let noise = ((update * 7919) % 101) as f64 / 101.0 - 0.5;
        let reward = 0.38 + 0.37 * (1.0 - (-3.0 * progress).exp()) + 0.12 * noise;
        let row = UpdateRow { update, reward, accuracy: 0.1, ..UpdateRow::default() };
        text += &(serde_json::to_string(&row).unwrap() + "\n");
        if update % 50 == 0 {
            let row = EvaluationRow {
                evaluated: update,
                held_out_accuracy: Some(0.37 + 0.4 * progress),
                ..EvaluationRow::default()
            };
            text += &(serde_json::to_string(&row).unwrap() + "\n");
        }
    }
    text
}

/// How many pixels of each colour the picture has.
fn pixels(picture: &Path) -> impl Fn(RGBColor) -> usize {
    let decoder = png::Decoder::new(fs::File::open(picture).unwrap());
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((info.width, info.height, info.color_type), (SIZE.0, SIZE.1, png::ColorType::Rgb));
    move |colour| bytes.chunks_exact(3).filter(|pixel| *pixel == [colour.0, colour.1, colour.2]).count()
}

#[test]
fn the_picture_shows_each_curve_and_text() {
    let dir = tempfile::tempdir().unwrap();
    let (rows, picture) = (dir.path().join("metrics.jsonl"), dir.path().join("reward.png"));
    fs::write(&rows, metrics(500)).unwrap();
    reward_curve(&rows, &picture, "chain_sum").unwrap();
    let count = pixels(&picture);
    for colour in [RAW, SMOOTHED, ACCURACY] {
        assert!(count(colour) > 200, "{colour:?}: {} pixels", count(colour));
    }
    // Text and axes are the only black things.
    assert!(count(BLACK) > 500, "{} black pixels", count(BLACK));
    let all = (SIZE.0 * SIZE.1) as usize;
    assert!(count(WHITE) > all / 2 && count(WHITE) < all * 99 / 100);
}

#[test]
fn a_single_row_and_rewards_of_any_size_can_be_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let (rows, picture) = (dir.path().join("metrics.jsonl"), dir.path().join("reward.png"));
    for text in
        ["{\"update\":0,\"reward\":0.5}", "{\"update\":3,\"reward\":-1e9}\n{\"update\":9,\"reward\":1e9}"]
    {
        fs::write(&rows, text).unwrap();
        reward_curve(&rows, &picture, "").unwrap();
        assert!(pixels(&picture)(BLACK) > 100);
    }
}

#[test]
fn repeated_updates_are_replaced_and_strangers_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.jsonl");
    let text = "{\"update\":2,\"reward\":0.1}\nnonsense\n{\"update\":1,\"reward\":0.5,\"accuracy\":0.4}\n\
                {\"evaluated\":1,\"held_out_accuracy\":0.3}\n{\"update\":2,\"reward\":0.7}\n{\"update\":3,\"rewar";
    fs::write(&path, text).unwrap();
    let curves = read_curves(&path).unwrap();
    assert_eq!(curves.rewards, BTreeMap::from([(1, 0.5), (2, 0.7)]));
    assert_eq!(curves.accuracies, BTreeMap::from([(1, 0.3)]));
    fs::write(&path, "\n").unwrap();
    assert!(matches!(read_curves(&path), Err(PlotError::NoUpdates { .. })));
    assert!(matches!(reward_curve(&dir.path().join("none"), &path, ""), Err(PlotError::Read { .. })));
}
