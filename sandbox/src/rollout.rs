//! What a run makes of tasks: from a work order to a prompt, and from a trajectory to its verdict.
//!
//! Node, verifier and learner call the same functions, and come to the same prompt and reward.
//!
//! May import `task` and `tasks`.
//!
//! ```text
//! TaskSpec, weights -> mix::TaskMix
//! WorkOrder + TaskMix -> assignment::Assignment -> Prompt        node and learner
//! Trajectory + Assignment -> replay::replay -> Replayed          turn by turn
//!                         -> judge::judge -> Verdict, or JudgeError (a refusal, or a failure of ours)
//!                         -> replay::heard -> what the policy heard between its turns
//! ```

pub mod assignment;
pub mod judge;
pub mod mix;
pub mod replay;
