//! What the task says of a group: its episodes and rewards.

use super::*;

#[test]
fn wrong_termination_breaks_the_rules() {
    let mut world = World::new();
    let lies: [fn(&mut Trajectory); 6] = [
        |t| t.stopped = false,
        |t| *t.response.last_mut().unwrap() = 1,
        |t| t.response[0] = END,
        |t| t.response[0] = 11,
        |t| {
            // Cut before the longest length: an answer that its node did not like.
            t.response = vec![1];
            t.logprobs = vec![-0.5];
            t.versions = schedule(1);
            t.stopped = false;
            t.reward = 0.0;
        },
        |t| {
            // The end token at the very end of a response that claims to be cut.
            t.response = vec![1, 1, 1, 1, END];
            t.logprobs = vec![-0.5; LONGEST];
            t.versions = schedule(LONGEST);
            t.stopped = false;
            t.reward = 0.0;
        },
    ];
    for (case, lie) in lies.into_iter().enumerate() {
        let outcome = world.lie(|group| lie(&mut group.trajectories[0]));
        assert_eq!(reason(outcome), RefuseReason::TaskRules, "case {case}");
    }
}

#[test]
fn episodes_of_several_turns_are_played_again() {
    let mut world = World::new();
    let game = TaskSpec::new("guess_number").with("numbers", 3).with("turns", 2).with("largest", 9);
    world.admission = Admission::new(world.run, &charter(&world.learner, 1), mix_of(game), Arc::new(Digits));
    // Halving finds the number in two guesses, or in one.
    let order = WorkOrder::derive(&world.run, Purpose::Train, OrderCounter(0));
    let tasks = world.admission.tasks.clone();
    let assignment = echo_sandbox::rollout::assignment::Assignment::of(&tasks, &order);
    let mut play = assignment.play();
    let (mut response, mut turns) = (Vec::new(), Vec::new());
    loop {
        let text = play.suggestion();
        response.extend(text.chars().map(|c| c.to_digit(10).unwrap()).chain([END]));
        turns.push(2);
        let said = echo_sandbox::task::Response { text: &text, finished: true };
        if let echo_sandbox::task::episode::EpisodeStep::Over { .. } = play.turn(&said, 1).unwrap() {
            break;
        }
    }
    let trajectory = |response: &[u32], turns: Vec<u32>, stopped, reward| Trajectory {
        turns: echo_protocol::work::trajectory::turns(turns),
        logprobs: vec![-0.5; response.len()],
        versions: spans(response.iter().map(|_| PolicyVersion(4))),
        reward,
        stopped,
        omega: Omega::new(),
        response: response.to_vec(),
        raw_logprobs: Vec::new(),
    };
    let honest = TrajectoryGroup {
        trajectories: vec![
            trajectory(&response, turns, true, 1.0),
            trajectory(&[0, END, 0, END], vec![2, 2], true, 0.0),
            trajectory(&[0, END, 1, 1, 1], vec![2, 3], false, 0.0),
            // The last token that there is ends a turn, and another would follow.
            trajectory(&[0, 0, 0, 0, END], vec![5], true, 0.0),
        ],
        ..world.group(0)
    };
    assert_eq!(world.send(&honest), Outcome::Accepted, "0000 is no number, so it ends its episode");
    type Lie = fn(&mut Trajectory);
    let lies: [(Lie, RefuseReason); 6] = [
        (|t| t.turns = vec![], RefuseReason::TaskRules),
        (|t| t.turns = vec![1, 3], RefuseReason::TaskRules),
        (|t| t.turns = vec![4], RefuseReason::Schema),
        (|t| t.turns = vec![2, 3], RefuseReason::Schema),
        (|t| t.stopped = false, RefuseReason::TaskRules),
        (|t| t.reward = 1.0, RefuseReason::Reward),
    ];
    for (case, (lie, expected)) in lies.into_iter().enumerate() {
        let mut group = TrajectoryGroup { counter: OrderCounter(1), ..honest.clone() };
        group.trajectories = vec![honest.trajectories[1].clone(); G];
        lie(&mut group.trajectories[0]);
        assert_eq!(reason(world.send(&group)), expected, "case {case}");
    }
}

#[test]
fn a_reward_that_was_not_earned_is_refused_and_so_is_one_withheld() {
    let mut world = World::new();
    let lies: [(usize, f32); 4] = [(1, 1.0), (2, 1.0), (0, 0.0), (1, 1e-5)];
    for (position, claimed) in lies {
        let outcome = world.lie(|group| group.trajectories[position].reward = claimed);
        assert_eq!(reason(outcome), RefuseReason::Reward, "{position} claims {claimed}");
    }
    assert_eq!(world.lie(|group| group.trajectories[1].reward = 1e-7), Outcome::Accepted);
    let batch =
        world.buffer.form_batch(PolicyVersion(4), &Staleness::new(3, None).unwrap(), 1).unwrap().unwrap();
    assert_eq!(batch[0].group.trajectories[1].reward, 0.0, "what is trained on is the learner's own figure");
}
