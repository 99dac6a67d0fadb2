use super::super::suite::{Checking, FileNames};
use super::super::testing::{judge, judging, suite, verdicts};
use super::checker_cache::MAX_BUILT;
use super::*;
use crate::isolation::bombs;
use echo_protocol::wire::content_id::ContentId;

use ProgramVerdict::*;

/// What `source` gets for adding two numbers.
fn adding(language: Language, source: &str) -> Vec<ProgramVerdict> {
    verdicts(judging(language, source, suite(&[("2 3\n", "5\n"), ("-1 1\n", "0\n")]), false))
}

fn python(source: &str) -> ProgramVerdict {
    adding(Language::Python, source)[0]
}

#[test]
fn every_language_adds() {
    let judge = judge();
    assert_eq!(
        judge.tools().lacks(),
        [],
        "this test runs programs in every language, and this machine lacks some"
    );
    for language in judge.tools().languages() {
        let source = match language {
            Language::Python => "print(sum(map(int, input().split())))",
            Language::Cpp17 | Language::Cpp20 => {
                "#include <bits/stdc++.h>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }"
            }
            Language::Rust => {
                "fn main() { let mut line = String::new(); std::io::stdin().read_line(&mut line).unwrap(); \
                 println!(\"{}\", line.split_whitespace().map(|n| n.parse::<i64>().unwrap()).sum::<i64>()); }"
            }
            Language::Go => {
                "package main\nimport \"fmt\"\nfunc main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }"
            }
        };
        assert_eq!(adding(language, source), [Accepted, Accepted], "{language}");
        assert_eq!(adding(language, "this is no program"), [CompileError], "{language}");
    }
}

#[test]
fn programs_know_that_they_are_judged() {
    let cpp = "#include <bits/stdc++.h>\nint main() {\n#ifndef ONLINE_JUDGE\nfreopen(\"input.txt\", \"r\", stdin);\n#endif\n\
               if (!getenv(\"ONLINE_JUDGE\")) return 3;\nlong a, b; std::cin >> a >> b; std::cout << a + b; }";
    assert_eq!(adding(Language::Cpp17, cpp), [Accepted, Accepted]);
    assert_eq!(adding(Language::Cpp20, cpp), [Accepted, Accepted]);
    let python = "import os, sys\nif not os.environ.get('ONLINE_JUDGE'): sys.stdin = open('input.txt')\nprint(sum(map(int, input().split())))";
    assert_eq!(adding(Language::Python, python), [Accepted, Accepted]);
}

#[test]
fn integers_of_many_digits_are_read_and_printed() {
    let digits = "7".repeat(5_000);
    let suite = suite(&[(&digits, &digits)]);
    let judged = |source: &str| verdicts(judging(Language::Python, source, suite.clone(), false));
    assert_eq!(judged("print(int(input()))"), [Accepted]);
    assert_eq!(judged("print(int(input()) + 1)"), [WrongAnswer]);
}

#[test]
fn what_compiles_and_does_not_run_is_no_program() {
    assert_eq!(adding(Language::Rust, "#![crate_type = \"lib\"]"), [CompileError]);
}

#[test]
fn every_way_to_fail_has_its_verdict() {
    assert_eq!(python("print(7)"), WrongAnswer);
    assert_eq!(python("import sys; sys.exit(3)"), RuntimeError(3));
    assert_eq!(python("1 / 0"), RuntimeError(1));
    assert_eq!(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), Signalled(11));
    assert_eq!(python("import time; time.sleep(60)"), WallLimit);
    assert_eq!(python("while True: pass"), CpuLimit);
    assert_eq!(python("x = bytearray(1 << 30)"), MemoryLimit);
    assert_eq!(python("print('x' * (2 << 20))"), OutputLimit);
    assert_eq!(python("def f(:"), CompileError);
    assert_eq!(python("x = '\0'"), CompileError);
    assert_eq!(python(&"(".repeat(100_000)), CompileError);
    assert_eq!(python("exit()"), WrongAnswer);
    assert_eq!(python("raise SyntaxError"), RuntimeError(1));
    assert_eq!(python("eval('1 +')"), RuntimeError(1));
    // The runner leaves it nothing that it has not imported.
    assert_eq!(python("sys.exit(0)"), RuntimeError(1));
    let slow = adding(Language::Python, "a, b = map(int, input().split())\nprint(a + b if a > 0 else 1)");
    assert_eq!(slow, [Accepted, WrongAnswer]);
}

#[test]
fn compile_bombs_are_no_programs_and_say_nothing_of_the_host() {
    let cpp = bombs::cpp().map(|(name, source)| (Language::Cpp17, name, source));
    let rust = [(Language::Rust, "include of the host", bombs::RUST_INCLUDE.to_owned())];
    for (language, name, source) in cpp.into_iter().chain(rust) {
        let reports: Vec<_> = judging(language, &source, suite(&[("", "")]), false).collect();
        let [report] = reports.as_slice() else { panic!("{language}, {name}: {reports:?}") };
        assert_eq!(report.verdict, CompileError, "{language}, {name}: {}", report.message);
        assert!(!report.message.contains("root:"), "{language}, {name}: {}", report.message);
    }
}

#[test]
fn an_early_stop_leaves_the_rest_out() {
    let suite = suite(&[("1", "1"), ("2", "1"), ("1", "1")]);
    let source = "print(input())";
    let all = judging(Language::Python, source, suite.clone(), false);
    assert_eq!(verdicts(all), [Accepted, WrongAnswer, Accepted]);
    let mut early = judging(Language::Python, source, suite, true);
    assert_eq!(verdicts(early.by_ref()), [Accepted, WrongAnswer]);
    assert!(early.is_done());
}

#[test]
fn answers_and_other_runs_are_nowhere_to_be_read() {
    // All that it can find: files, its environment and arguments, those of the processes that it
    // sees, and its descriptors.
    let source = "
import os
def read(path):
    try:
        with open(path, 'rb') as file: return file.read(1 << 20)
    except OSError: return b''
paths = [base + '/' + name for top in ('/work', '/tmp', '/var/tmp', '/dev/shm') for base, _, names in os.walk(top) for name in names]
paths += ['/proc/%s/%s' % (pid, name) for pid in os.listdir('/proc') if pid.isdigit() for name in ('environ', 'cmdline')]
found = [path for path in paths if b'NEEDLE'[::-1] in read(path)]
def is_open(number):
    try: os.fstat(number)
    except OSError: return False
    return True
inherited = [number for number in range(3, 1024) if is_open(number)]
secrets = [name for name in os.environ if not name.startswith(('PYTHON', 'LC_CTYPE', 'ONLINE_JUDGE'))]
print('clean' if not (found or inherited or secrets) else repr([found, inherited, secrets]).replace(' ', ''))
";
    let needle = "NEEDLE".chars().rev().collect::<String>();
    let suite = suite(&[("", &needle)]);
    let report = judging(Language::Python, source, suite, false).next().unwrap();
    assert_eq!(report.verdict, WrongAnswer);
    assert!(report.message.contains("found: 'clean'"), "{}", report.message);
}

#[test]
fn files_take_the_place_of_standard_input_and_output() {
    let mut suite = suite(&[("4 5", "9")]);
    suite.files = Some(FileNames { input: "sum.in".into(), output: "sum.out".into() });
    let run = |source: &str| verdicts(judging(Language::Python, source, suite.clone(), false))[0];
    let read = "a, b = map(int, open('sum.in').read().split())\n";
    assert_eq!(run(&format!("{read}print(a + b, file=open('sum.out', 'w'))")), Accepted);
    assert_eq!(run(&format!("{read}print(a - b, file=open('sum.out', 'w'))")), WrongAnswer);
    assert_eq!(run(&format!("{read}print(a + b)")), PresentationError);
    assert_eq!(run("import os; os.symlink('sum.in', 'sum.out')"), PresentationError);
    assert_eq!(run("import os; os.mkfifo('sum.out')"), PresentationError);
    assert_eq!(run("open('sum.out', 'w').write('9 ' * (1 << 20))"), OutputLimit);
}

#[test]
fn an_authors_checker_decides_and_its_failure_is_nobodys() {
    let suite = |checker: &str| {
        let checker = Submission { language: Language::Python, source: checker.into() };
        Suite { checking: Checking::Program(checker), ..suite(&[("10", "")]) }
    };
    // Any two numbers with the sum of the input are right.
    let checker = "
import sys
total, found = (list(map(int, open(name).read().split())) for name in sys.argv[1:3])
sys.exit(2 if len(found) != 2 else int(sum(found) != total[0]))
";
    let judged = |source, checker| verdicts(judging(Language::Python, source, suite(checker), false));
    assert_eq!(judged("print(3, 7)", checker), [Accepted]);
    assert_eq!(judged("print(3, 8)", checker), [WrongAnswer]);
    assert_eq!(judged("print(10)", checker), [PresentationError]);
    for broken in
        ["1 / 0", "import sys; sys.exit(3)", "import os; os.abort()", "def", "import sys; sys.exit(7)"]
    {
        assert_eq!(judged("print(3, 7)", broken), [Internal], "{broken}");
    }
}

#[test]
fn a_checker_is_built_once() {
    let judge = judge();
    let checker = |source: &str| Submission { language: Language::Python, source: source.into() };
    let program =
        |source: &str| match ReadyChecker::build(&judge, &Checking::Program(checker(source))).unwrap() {
            ReadyChecker::Program(program) => program,
            ReadyChecker::Stock(stock) => panic!("{stock:?}"),
        };
    assert!(Arc::ptr_eq(&program("exit(0)"), &program("exit(0)")));
    assert!(!Arc::ptr_eq(&program("exit(0)"), &program("exit(1)")));

    let (built, mut compilations) = (Built::new(), 0);
    let mut get = |source: Submission| {
        built.get(&source, || {
            compilations += 1;
            Program::build(&judge.sandbox, &judge.tools, source.clone())
        })
    };
    let bad = Submission { language: Language::Cpp17, source: "this is no program".into() };
    assert!(get(bad.clone()).is_err() && get(bad).is_err());
    for source in ["1", "2", "1", "2"] {
        get(checker(source)).unwrap();
    }
    // Beyond the limit, the one that was not used for longest goes.
    for other in 0..MAX_BUILT - 1 {
        get(checker(&format!("# {other}"))).unwrap();
    }
    get(checker("2")).unwrap();
    get(checker("1")).unwrap();
    // Failures are not kept; 1 was built again, and 2 was not.
    assert_eq!(compilations, 2 + 2 + (MAX_BUILT - 1) + 1);
}

#[test]
fn data_that_is_not_there_is_our_failure() {
    let mut suite = suite(&[("1", "1"), ("1", "1")]);
    suite.tests[0].input = ContentId::of(b"never put");
    suite.tests[1].answer = ContentId::of(b"never put");
    assert_eq!(verdicts(judging(Language::Python, "print(input())", suite, false)), [Internal, Internal]);
}
