use std::time::Duration;

use super::*;
use crate::programs::language::Language;
use crate::programs::suite::Suite;
use crate::programs::testing::{judge, judging, suite, verdicts};
use crate::programs::verdict::ProgramVerdict;
use crate::programs::verdict::ProgramVerdict::*;

fn task(reference: &str, setup: &str, checks: &[&str]) -> FunctionTask {
    let checks = checks.iter().map(|check| check.to_string()).collect();
    FunctionTask { reference: reference.into(), subjects: None, setup: setup.into(), checks }
}

fn exam(reference: &str, setup: &str, checks: &[&str]) -> Exam {
    Exam::prepare(&judge(), task(reference, setup, checks)).unwrap()
}

/// What programs get that have to double.
fn doubling(sources: &[&str]) -> Vec<ProgramVerdict> {
    let checks = ["assert double(2) == 4", "assert double('ab') == 'abab', 'text'", "assert double(3) == 6"];
    let exam = exam("def double(x): return x + x", "", &checks);
    sources.iter().map(|source| ProgramVerdict::combined(verdicts(exam.judge(source)))).collect()
}

#[test]
fn each_check_has_its_report() {
    let checks = ["assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3", "assert f(4) == 4"];
    let exam = exam("def f(x): return x", "", &checks);
    let source = "def f(x):\n    if x == 2: raise ValueError\n    return None if x == 3 else x";
    assert_eq!(verdicts(exam.judge(source)), [Accepted, RuntimeError(1), WrongAnswer, Accepted]);
}

#[test]
fn programs_get_what_they_deserve() {
    let sources = [
        "def double(x): return 2 * x",
        "def double(x): return x",
        "def double(x): return",
        "def double(x): raise KeyError(x)",
        "def twice(x): return 2 * x",
        "def double(x): return 2 * x\ndouble(1, 2)",
        "def double(x) return",
        "def double(x):\n    while True: pass",
        "import sys\ndef double(x): sys.exit(7)",
        "def double(x): return [x] * (1 << 32)",
    ];
    let expected = [
        Accepted,
        WrongAnswer,
        WrongAnswer,
        RuntimeError(1),
        RuntimeError(1),
        RuntimeError(1),
        CompileError,
        CpuLimit,
        RuntimeError(7),
        RuntimeError(1),
    ];
    let found = doubling(&sources);
    for ((source, expected), found) in sources.iter().zip(expected).zip(found) {
        // Memory is asked for at once, which some systems refuse and others end.
        let refused = source.contains("1 << 32") && found == MemoryLimit;
        assert!(found == expected || refused, "{source}: {found}");
    }
}

#[test]
fn reward_hacking_yields_no_reward() {
    // What is said on the channel of outcomes, in its own form: four times an object that is true.
    let forged = "import os\nfor fd in range(64):\n    try: os.write(fd, b'2:vT2:vT2:vT')\n    except OSError: pass\nos._exit(0)";
    let sources = [
        // Ends before the checks, in every way there is.
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "def double(x):\n    import os; os._exit(0)",
        "def double(x): exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        // Prints verdicts.
        "print('AAA'); print('1:A1:A1:A'); print('AC')",
        "import os\nos.write(1, b'3:AAA')\ndef double(x):\n    for fd in range(64):\n        try: os.write(fd, b'3:AAA')\n        except OSError: pass",
        forged,
        "import atexit, os\natexit.register(lambda: os.write(1, b'3:AAA'))\ndef double(x): return None",
        // Is equal to everything.
        "class Any:\n    def __eq__(self, other): return True\ndef double(x): return Any()",
        "class Any(int):\n    def __eq__(self, other): return True\ndef double(x): return Any()",
        "class Any(str):\n    def __eq__(self, other): return True\n    __hash__ = None\ndef double(x): return Any()",
        "class Any(list):\n    def __eq__(self, other): return True\ndef double(x): return Any()",
        "class Any(dict):\n    def __eq__(self, other): return True\n    def items(self): return [(1, self)]\ndef double(x): return Any()",
        // Patches what it can reach of the harness and of the language.
        "import sys\nfor frame in [sys._getframe(1), sys._getframe(2)]:\n    frame.f_globals.update(encode=lambda *_: b'T', send=lambda *_: None)",
        "import builtins\nbuiltins.AssertionError = builtins.Exception = type('Quiet', (BaseException,), {})\ndef double(x): return None",
        "import builtins\nbuiltins.compile = builtins.exec = lambda *_: None\ndef double(x): return None",
        "abs = tuple = str = lambda *_: True\ndef double(x): return None",
        "import gc\nfor found in gc.get_objects():\n    if isinstance(found, dict) and '__hold__' in found: found['__hold__'] = lambda claim: None",
        // Looks for the answers: in the harness, in files, in what it was given, in its parent.
        "import gc, os\ndef double(x):\n    seen = [open(p, 'rb').read() for p in ('/proc/self/environ', '/proc/self/cmdline', '/work/subject.pyc')]\n    seen = str(seen) + str([o for o in gc.get_objects() if isinstance(o, (str, bytes, list))])\n    return 'abab' if 'aba' + 'b' in seen else None",
        // Leaves somebody behind who goes on writing.
        "import os\nif os.fork() == 0:\n    while True:\n        for fd in range(64):\n            try: os.write(fd, b'2:vT')\n            except OSError: pass\ndef double(x): return None",
    ];
    for (source, found) in sources.iter().zip(doubling(&sources)) {
        assert_eq!(found.score(), Some(false), "{source}: {found}");
    }
}

#[test]
fn no_exception_ends_a_check_early_and_well() {
    let checks = [
        "assert all(map(lambda pair: f(pair[0]) == pair[1], [(2, 4), (3, 9)]))",
        "for x in map(f, [2, 3]): assert x in (4, 9)",
        "assert not list(filter(lambda x: f(x) != x * x, [2, 3]))",
        "assert 5 not in iter(lambda: f(3), 9)",
    ];
    let exam = exam("def f(x): return x * x", "", &checks);
    for raised in ["StopIteration", "StopAsyncIteration", "type('StopIteration', (Exception,), {})"] {
        let source = format!("def f(x): raise {raised}");
        assert_eq!(verdicts(exam.judge(&source)), [RuntimeError(1); 4], "{raised}");
    }
}

#[test]
fn hostile_outcomes_do_not_break_the_examiner() {
    let outcome = |written: &str| {
        format!(
            "import os\nfor fd in range(3, 64):\n    try: [os.write(fd, b'%d:' % len(w) + w) for w in [{written}] * 3]\n    except OSError: pass\nos._exit(0)"
        )
    };
    let sources = [
        outcome("b''"),
        outcome("b'v'"),
        outcome("b'vl999999999:'"),
        outcome("b'v' + b'l1:' * 20000"),
        outcome("b'vi' + b'f' * 100000 + b';'"),
        outcome("b'vr0;'"),
        outcome("b'vS1:l0:'"),
        outcome("b'vs2:\\xff\\xff'"),
        outcome("b'eSystemExit'"),
        outcome("b'e__import__'"),
        outcome("b'eAssertionError'"),
        outcome("b'vi' + b'1' * 9 + b';;'"),
        outcome("b'vf1e400;'"),
        outcome("b'zzz'"),
        outcome("b'o'"),
        outcome("b'vxeval;t1:s1:1'"),
        outcome("b'vxFraction;t2:i1;i0;'"),
        outcome("b'vxnamedtuple;t3:s1:At1:s6:__eq__t1:N'"),
        outcome("b'vxnamedtuple;t3:s1:At1:s7:x):0 if t1:N'"),
    ];
    let sources: Vec<_> = sources.iter().map(String::as_str).collect();
    for (source, found) in sources.iter().zip(doubling(&sources)) {
        assert_eq!(found.score(), Some(false), "{source}: {found}");
    }
}

#[test]
fn values_of_every_kind_cross_unchanged() {
    let values = "[None, True, False, 0, -1, 1 << 200, -(1 << 70), 0.1, -0.0, 1e300, float('inf'), 2j, 'é\\ud800\\x00', b'\\xff', (1,), (), [], \
                  [[1, [2]]], {1, 'a'}, frozenset({(1, 2)}), {'k': [1], 2: {}}]";
    let same = format!("assert repr(same({values})) == repr({values})");
    let kinds = "from collections import *\nassert made() == [Counter('aab'), OrderedDict(a=1), deque([1]), {'x': 1}]\nassert type(made()[0]) is Counter";
    let reference = "from collections import *\ndef same(x): return x\ndef made(): return [Counter('aab'), OrderedDict(a=1), deque([1]), defaultdict(int, x=1)]\n\
                     def numbers(n):\n    yield from range(n)\ndef fail(): raise LookupError('x')";
    let generator = "assert list(numbers(3)) == [0, 1, 2]";
    let exceptions = "try: fail()\nexcept LookupError: pass\nelse: assert False";
    exam(reference, "", &[same.as_str(), kinds, generator, exceptions]);
}

/// What the examiner reads is the judged program's: whatever it is, no other exception may come of it.
#[test]
fn any_bytes_are_a_value_or_refused() {
    let source = concat!(include_str!("../harness/wire.py"), "\n\n", include_str!("tests/wire.py"));
    let suite = Suite { cpu_ms: 30_000, ..suite(&[("", "ok")]) };
    let reports: Vec<_> = judging(Language::Python, source, suite, true).collect();
    assert!(reports.len() == 1 && reports[0].verdict == Accepted, "{reports:?}");
}

#[test]
fn objects_stay_where_they_are_and_can_be_used() {
    let reference = "
class Node:
    def __init__(self, value): self.value, self.left, self.right = value, None, None
    def add(self, n): self.value += n; return self
def height(node): return 1 + max(height(node.left), height(node.right)) if node else 0
";
    let setup = "root = Node(1)\nroot.left = Node(2)\nroot.left.right = Node(3)";
    let exam = exam(reference, setup, &["assert height(root) == 3", "assert root.left.add(5).value == 7"]);
    assert_eq!(verdicts(exam.judge(reference)), [Accepted, Accepted]);
    let liar = reference
        .replace("def __init__", "def __eq__(self, other): return True\n    def __init__")
        .replace("1 +", "2 +");
    assert_eq!(verdicts(exam.judge(&liar))[0], WrongAnswer);
}

#[test]
fn checks_that_depend_on_outcomes_take_more_rounds() {
    let checks = [
        "x = 1\nwhile x < 8: x = step(x)\nassert x == 8",
        "assert step(step(step(1))) == 8",
        "assert not (step(2) == 5)",
    ];
    let exam = exam("def step(x): return 2 * x", "", &checks);
    assert_eq!(verdicts(exam.judge("def step(x): return x << 1")), [Accepted; 3]);
    assert_eq!(verdicts(exam.judge("def step(x): return x + 1")), [Accepted, WrongAnswer, Accepted]);
    // It never arrives: the rounds end.
    let endless = verdicts(exam.judge("def step(x): return x"));
    assert_eq!(ProgramVerdict::combined(endless), WrongAnswer);
}

#[test]
fn a_program_sees_no_outcomes_but_its_own() {
    let cipher = |shift: &str| {
        let function = |name: &str, sign: char| {
            format!("def {name}(s): return ''.join(chr((ord(c) - 97 {sign} {shift}) % 26 + 97) for c in s)\n")
        };
        function("enc", '+') + &function("dec", '-')
    };
    let checks = [
        "assert enc('hello') == 'mjqqt'",
        "assert dec(enc('world')) == 'world'",
        "x = enc('abc')\nassert x == 'fgh'\nassert dec(x) == 'abc'",
    ];
    let exam = exam(&cipher("5"), "", &checks);
    assert_eq!(verdicts(exam.judge(&cipher("31"))), [Accepted; 3]);
    assert_eq!(verdicts(exam.judge(&cipher("4"))), [WrongAnswer, Accepted, WrongAnswer]);
    // What it is asked to decode tells what it should have encoded.
    let spy = "import sys\nframe = sys._getframe(1)\ndecode = frame.f_globals['decode']\n\
               asked = [decode(one, lambda tag, text: None) for one in frame.f_locals['operations']]\nshift = 0\n\
               for one, next in zip(asked, asked[1:]):\n    if one[1] == 'enc' and next[1] == 'dec': shift = ord(next[2][0][0]) - ord(one[2][0][0])\n"
        .to_owned();
    assert_eq!(verdicts(exam.judge(&(spy + &cipher("shift")))), [WrongAnswer, Accepted, WrongAnswer]);
}

#[test]
fn what_is_kept_between_calls_is_kept_in_every_round() {
    let stack = "items = []\ndef push(x):\n    items.append(x)\n    return len(items)\ndef pop(): return items.pop()\n\
                 def shuffled(n):\n    import random\n    dice = random.Random(n)\n    return dice.sample(range(n), n)\n\
                 def ordered(values): return sorted(values)";
    let checks = [
        "push(push(7))\nassert pop() == 1 and pop() == 7",
        "assert ordered(shuffled(9)) == list(range(9))",
        "push(pop() if push(5) == 2 else 6)\nassert [pop(), pop()] == [6, 5]",
    ];
    let exam = exam(stack, "", &checks);
    assert_eq!(verdicts(exam.judge(&stack.replace("Random(n)", "Random(n + 1)"))), [Accepted; 3]);
    let queue = stack.replace("items.pop()", "items.pop(0)");
    assert_eq!(verdicts(exam.judge(&queue)), [WrongAnswer, Accepted, WrongAnswer]);
}

#[test]
fn what_failed_once_is_not_tried_again() {
    let exam = exam("def step(x): return 2 * x", "", &["assert step(1) == 2", "assert step(step(1)) == 4"]);
    // Answers otherwise when it sees that it is asked again, as one that draws lots would in
    // some of its rounds.
    let again = "import sys\nasked = sys._getframe(1).f_locals['operations']\ndef step(x): return 7 if len(asked) == 2 else 2 * x";
    assert_eq!(verdicts(exam.judge(again)), [WrongAnswer, Accepted]);
}

#[test]
fn rounds_end_with_their_time() {
    let at_once = |check, source| {
        let exam = exam("def step(x): return 2 * x", "", &[check]);
        verdicts(exam.judge_within(source, Duration::ZERO))
    };
    let right = "def step(x): return x << 1";
    assert_eq!(at_once("assert [step(x) for x in range(3)] == [0, 2, 4]", right), [Accepted]);
    assert_eq!(at_once("assert step(step(1)) == 4", right), [WallLimit]);
}

#[test]
fn no_program_can_choose_to_have_no_verdict() {
    let lists = "def f(x): return [x]\ndef g(x): return x";
    let cases = [
        // What is iterated over is no plain list, and neither is the list that is made of it.
        ("def f(x): return [x]", "for x in f(1): assert x == 1", "def f(x): return [object()]", WrongAnswer),
        // What is passed on is something else each time.
        (
            lists,
            "assert g(f(1)) == [1]",
            "import os\ndef f(x): return os.urandom(8)\ndef g(x): return [1]",
            WrongAnswer,
        ),
        // The checks ask for more than they may, and say more than they may.
        (
            lists,
            "for x in f(1): assert g(x) == x",
            "def f(x): return [1] * 20000\ndef g(x): return x",
            WrongAnswer,
        ),
        (
            lists,
            "for x in f(1): assert g(x) == g(x)",
            "def f(x): return ['a' * 300000] * 3\ndef g(x): return x",
            WrongAnswer,
        ),
        // It lacks what the checks name beside its functions.
        (
            "LIMIT = 3\ndef f(x): return x + LIMIT",
            "assert f(LIMIT) == 6",
            "def f(x): return x + 3",
            RuntimeError(1),
        ),
        // The checks give up.
        (
            "def f(x): return x",
            "if not f(1): raise SystemExit\nassert f(1) == 1",
            "def f(x): return 0",
            WrongAnswer,
        ),
    ];
    for (reference, check, source, expected) in cases {
        let exam = exam(reference, "", &[check]);
        assert_eq!(verdicts(exam.judge(reference)), [Accepted], "{check}");
        assert_eq!(verdicts(exam.judge(source)), [expected], "{check}");
    }
    let exam = exam("def f(x): return 0", "", &["x = f(1)\nwhile x: x = x + 0"]);
    let endless = verdicts(exam.judge("def f(x): return 1"));
    // On a machine that is busy with something else, the clock is first.
    assert!([[CpuLimit], [WallLimit]].iter().any(|limit| endless == limit), "{endless:?}");
}

#[test]
fn random_checks_ask_the_same_every_time() {
    let check =
        "import random\nfor _ in range(20):\n    n = random.randint(0, 1 << 30)\n    assert same(n) == n";
    let exam = exam("def same(x): return x", "", &[check]);
    assert_eq!(verdicts(exam.judge("def same(x): return x")), [Accepted]);
    assert_eq!(verdicts(exam.judge("def same(x): return x & ~1")), [WrongAnswer]);
}

#[test]
fn tasks_that_judge_nothing_are_refused() {
    let refused =
        |reference: &str, checks: &[&str]| Exam::prepare(&judge(), task(reference, "", checks)).unwrap_err();
    let wrong = "def f(): return 1";
    assert_eq!(refused(wrong, &["assert True"]), ExamError::NothingAsked);
    assert!(matches!(refused(wrong, &[]), ExamError::Size { .. }));
    assert!(matches!(
        refused(wrong, &["assert f() == 2"]),
        ExamError::Reference { verdict: WrongAnswer, .. }
    ));
    assert!(matches!(refused("def f(:", &["assert f()"]), ExamError::Broken { .. }));
    let lacks = ExamError::Lacks { module: "no_such_module".into() };
    assert_eq!(refused("import no_such_module\ndef f(): return 1", &["assert f() == 1"]), lacks);
    assert_eq!(refused(wrong, &["import no_such_module.inner\nassert f() == 1"]), lacks);
    assert_eq!(refused(wrong, &["assert f() == 1", "import no_such_module"]), lacks);
    assert!(matches!(refused(wrong, &["assert ("]), ExamError::Broken { .. }));
}

#[test]
fn helpers_are_the_authors_whatever_a_program_defines() {
    let row = HumanEval {
        task_id: "x".into(),
        prompt: "def helper(x): return x + 1\n\ndef f(x):\n    \"\"\"One less.\"\"\"\n".into(),
        entry_point: "f".into(),
        canonical_solution: "    return x - 1\n".into(),
        test: "def check(candidate):\n    for x in range(3):\n        assert helper(candidate(x)) == x\n"
            .into(),
    };
    let exam = Exam::prepare(&judge(), row.task()).unwrap();
    assert_eq!(verdicts(exam.judge(&row.program(&row.canonical_solution))), [Accepted]);
    let cheat = row.program("    return x\ndef helper(x): return x\n");
    assert_eq!(verdicts(exam.judge(&cheat)), [WrongAnswer]);
}

/// What a program gets that changes its arguments: the verdicts of the checks in the order of `checks`.
fn judged(reference: &str, checks: &[&str], source: &str) -> Vec<ProgramVerdict> {
    verdicts(exam(reference, "", checks).judge(source))
}

#[test]
fn what_a_function_does_to_its_arguments_is_seen_where_the_reference_does_it() {
    let cases = [
        (
            "def f(xs): xs.sort()",
            "xs = [3, 1, 2]\nf(xs)\nassert xs == [1, 2, 3]",
            "def f(xs): return sorted(xs)",
        ),
        (
            "def f(m):\n    for row in m: row.reverse()",
            "m = [[1, 2], [3, 4]]\nrow = m[0]\nf(m)\nassert m == [[2, 1], [4, 3]] and row == [2, 1]",
            "def f(m): m[:] = [[2, 1], [4, 3]]",
        ),
        (
            "def f(d):\n    d['x'] = d.pop('y')\n    return d",
            "d = {'y': 2}\nassert f(d) is d and d == {'x': 2}",
            "def f(d): return {'x': 2}",
        ),
        ("def f(s): s.add(3)", "s = {1}\nf(s)\nassert s == {1, 3}", "def f(s): s |= {4}"),
        ("def f(b): b[0] = 7", "b = bytearray(b'a')\nf(b)\nassert b == b'\\x07'", "def f(b): b = b'\\x07'"),
        (
            "def f(q): q.rotate(1)",
            "from collections import deque\nq = deque([1, 2])\nf(q)\nassert list(q) == [2, 1]",
            "def f(q): pass",
        ),
        (
            "def f(a, b):\n    a.append(b)\n    b.append(1)",
            "a, b = [], []\nf(a, b)\nassert a == [[1]] and a[0] is b",
            "def f(a, b):\n    a.append(b[:])\n    b.append(1)",
        ),
        (
            "class F:\n    def __init__(self, xs): self.xs = xs\n    def go(self): self.xs.sort()",
            "xs = [2, 1]\nF(xs).go()\nassert xs == [1, 2]",
            "class F:\n    def __init__(self, xs): self.xs = list(xs)\n    def go(self): self.xs.sort()",
        ),
        // More calls than rounds: what was passed before is passed again, and not a copy.
        (
            "def f(xs, x): xs.append(x)",
            "xs = []\nfor i in range(40): f(xs, i)\nxs.append(7)\nf(xs, 8)\nassert xs == [*range(40), 7, 8]",
            "def f(xs, x): xs.insert(0, x)",
        ),
    ];
    for (reference, check, wrong) in cases {
        assert_eq!(judged(reference, &[check], reference), [Accepted], "{check}");
        assert_eq!(judged(reference, &[check], wrong), [WrongAnswer], "{check}");
    }
}

#[test]
fn no_program_makes_its_check_hold_by_emptying_its_argument() {
    let check = "xs = [3, 1]\nassert f(xs) == sorted(xs)";
    let emptied = "def f(xs):\n    xs.clear()\n    return []";
    assert_eq!(judged("def f(xs): return sorted(xs)", &[check], emptied), [WrongAnswer]);
}

#[test]
fn functions_can_be_arguments() {
    let reference = "def apply(f, xs): return [f(x) for x in xs]";
    let checks = [
        "assert apply(lambda x: x + 1, [1, 2]) == [2, 3]",
        "import math\nassert apply(math.sqrt, [4]) == [2] and apply(str.upper, ['a']) == ['A'] and apply(int, ['3']) == [3]",
        "k = 5\ndef g(x):\n    def h(y): return y * k\n    return h(x)\nassert apply(g, [1]) == [5]",
        "def fact(n): return 1 if n < 2 else n * fact(n - 1)\nassert apply(fact, [5]) == [120]",
        "from functools import partial\nfrom operator import add, itemgetter\nassert apply(partial(add, 3), [1]) == [4] and apply(itemgetter(1), ['ab']) == ['b']",
        "assert apply('x'.join, ['ab']) == ['axb'] and apply({1: 2}.get, [1]) == [2]",
        "assert apply(lambda x: apply(lambda y: y * x, [x]), [3]) == [[9]]",
        "def d(x, y=4, *, z=1): return x + y + z\nassert apply(f=d, xs=range(2)) == [5, 6]",
    ];
    assert_eq!(judged(reference, &checks, "def apply(f, xs): return list(map(f, xs))"), [Accepted; 8]);
    assert_eq!(judged(reference, &checks, "def apply(f, xs): return [None for x in xs]"), [WrongAnswer; 8]);
    assert_eq!(judged(reference, &checks, "def apply(f, xs): raise KeyError"), [RuntimeError(1); 8]);
    let calls = "seen = []\neach(lambda x: seen.append(x), [1, 2])\nassert seen == [1, 2]";
    let each = "def each(f, xs):\n    for x in xs: f(x)";
    assert_eq!(judged(each, &[calls], each), [Accepted]);
    assert_eq!(judged(each, &[calls], "def each(f, xs): f(1)"), [WrongAnswer]);
}

/// A function that is handed over brings what it refers to, and nothing else of the checks.
#[test]
fn what_is_expected_is_not_handed_over_with_a_function() {
    let check = "answers = {1: 'se' + 'cret'}\ndef g(x): return x\nassert f(g) == answers[1]";
    let spy = "def f(g): return next((v[1] for v in g.__globals__.values() if isinstance(v, dict) and 1 in v), None)";
    assert_eq!(judged("def f(g): return 'secret'", &[check], spy), [WrongAnswer]);
}

#[test]
fn integers_of_many_digits_cross_both_ways() {
    let check = "n = 10 ** 5000\nassert f(n) == (2 * n, str(2 * n)) and f(-n)[0] == -2 * n";
    let reference = "def f(n): return 2 * n, str(2 * n)";
    assert_eq!(judged(reference, &[check], "def f(n): return int(str(n)) * 2, '2' + '0' * 5000"), [Accepted]);
    assert_eq!(judged(reference, &[check], "def f(n): return n, str(n)"), [WrongAnswer]);
}

#[test]
fn forged_changes_are_outcomes_like_others() {
    let changed = |written: &str| {
        format!(
            "import os\nfor fd in range(3, 64):\n    try: [os.write(fd, b'%d:' % len(w) + w) for w in [{written}] * 3]\n    except OSError: pass\nos._exit(0)"
        )
    };
    let check = "xs = [2, 1]\nother = [1, 2]\nf(xs)\nassert xs == other";
    let exam = exam("def f(xs): xs.sort()", "", &[check]);
    for written in [
        "b'm'",
        "b'm9:vN'",
        "b'm-1:vN'",
        "b'm4:t1:NvN'",
        "b'm17:t1:t3:i0;i1;l0:vN'",
        "b'm16:t1:t3:i0;i0;NvN'",
        "b'm18:t1:t3:i-1;i0;l0:vN'",
        "b'm18:t1:t3:i0;i0;ya:vN'",
        "b'm22:t1:t3:i0;i0;l1:a9,9;vN'",
        "b'm' + b'9' * 5000 + b':vN'",
    ] {
        let found = verdicts(exam.judge(&changed(written)));
        assert_eq!(ProgramVerdict::combined(found).score(), Some(false), "{written}");
    }
}

#[test]
fn values_of_the_library_and_named_tuples_are_data() {
    let cases = [
        (
            "from fractions import Fraction\ndef f(a, b): return Fraction(a, b)",
            "from fractions import Fraction\nassert f(1, 2) == Fraction(1, 2) and f(2, 4) * 2 == 1",
            "def f(a, b): return a / b + 1",
        ),
        (
            "from decimal import Decimal\ndef f(a): return a + Decimal('0.10')",
            "from decimal import Decimal\nassert str(f(Decimal(1))) == '1.10'",
            "from decimal import Decimal\ndef f(a): return a + Decimal('0.1')",
        ),
        (
            "from datetime import date, timedelta\ndef f(y): return date(y, 1, 1) + timedelta(1)",
            "from datetime import date\nassert f(2024) == date(2024, 1, 2)",
            "def f(y): return (y, 1, 2)",
        ),
        (
            "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(a): return P(a, a + 1)",
            "assert f(1).y == 2 and f(1) == (1, 2) and f(1) == P(1, 2)",
            "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(a): return P(a, a)",
        ),
    ];
    for (reference, check, wrong) in cases {
        assert_eq!(judged(reference, &[check], reference), [Accepted], "{check}");
        assert_eq!(judged(reference, &[check], wrong), [WrongAnswer], "{check}");
    }
}

#[test]
fn objects_of_the_authors_own_classes_can_be_arguments() {
    let node = "class Node:\n    def __init__(self, val, left=None, right=None): self.val, self.left, self.right = val, left, right\n";
    let depth = "def depth(n): return 0 if n is None else 1 + max(depth(n.left), depth(n.right))";
    let tests = format!("{node}assert depth(Node(1, Node(2), Node(3, Node(4)))) == 3");
    let inverted = format!(
        "{node}def inv(n):\n    if isinstance(n, Node): n.left, n.right = inv(n.right), inv(n.left)\n    return n"
    );
    let prompts = "r = inv(Node(1, Node(2), Node(3)))\nassert r.left.val == 3 and r.right.val == 2";
    let cycle = "class N: pass\na, b = N(), N()\na.next, b.next = b, None\nassert not has(a)\nb.next = a\nassert has(a)";
    let has = "def has(h):\n    seen = []\n    while h:\n        if h in seen: return True\n        seen.append(h)\n        h = h.next\n    return False";
    let ordered = "class K:\n    def __init__(self, v): self.v = v\n    def __lt__(self, o): return self.v < o.v\nassert f([K(2), K(1)]) == [1, 2]";
    let cases = [
        ("depth", depth.to_owned(), tests.as_str(), "def depth(n): return 4".to_owned()),
        ("inv", inverted, prompts, format!("{node}def inv(n): return n")),
        ("has", has.to_owned(), cycle, "def has(h): return True".to_owned()),
        (
            "f",
            "def f(xs): return [x.v for x in sorted(xs)]".to_owned(),
            ordered,
            "def f(xs): return []".to_owned(),
        ),
    ];
    for (subject, reference, check, wrong) in cases {
        let subjects = Some(vec![subject.to_owned()]);
        let exam =
            Exam::prepare(&judge(), FunctionTask { subjects, ..task(&reference, "", &[check]) }).unwrap();
        assert_eq!(verdicts(exam.judge(&reference)), [Accepted], "{check}");
        assert_eq!(verdicts(exam.judge(&wrong)), [WrongAnswer], "{check}");
    }
}
